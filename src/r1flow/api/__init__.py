"""What `import r1flow` offers. Functions that find something have a command of `r1flow` that prints it."""
