"""Data folders of earlier versions, whole: they are opened, and everything in them is found."""
