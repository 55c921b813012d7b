"""How fast is it here? The measurements behind `proxmesh bench`, one a module."""
