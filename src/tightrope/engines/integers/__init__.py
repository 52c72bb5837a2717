"""Privacy curves in exact integers and balls: a second route, which shares no arithmetic with the first."""
