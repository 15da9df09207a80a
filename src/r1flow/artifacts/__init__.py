"""What a stage leaves behind, and how it is proved: manifests, provenance, the store, the code's fingerprint, DVC."""
