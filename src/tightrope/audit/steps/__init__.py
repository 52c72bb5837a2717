"""Every optimizer step against the draw whose gradients it holds, checked while training."""
