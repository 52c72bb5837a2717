"""The page in the browser: `tightrope explore`."""
