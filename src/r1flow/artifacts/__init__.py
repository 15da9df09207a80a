"""What a stage leaves behind, and how it is verified: manifests, provenance, the store, the code's fingerprint, DVC."""
