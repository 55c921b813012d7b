"""What a program or a notebook calls: runs with pictures, comparisons, searches."""
