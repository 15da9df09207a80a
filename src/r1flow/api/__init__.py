"""What `import r1flow` offers. Each function has a command of `r1flow` that prints what it returns."""
