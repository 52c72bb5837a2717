"""One step cut into cells: enclosures of their masses and losses, and the atoms made of them."""
