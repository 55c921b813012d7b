"""How fast is it here? The measurements behind `proxmesh bench`, one per module."""
