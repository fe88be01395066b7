"""The user's arrays: checked, canonical, of data frames; rankings, and which labels they may hold."""
