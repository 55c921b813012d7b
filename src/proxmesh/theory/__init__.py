"""Theory that computes: certificates, automatic constants, monitors."""

from proxmesh.theory.automatic import Settled, settled
from proxmesh.theory.certificate import Certificate, certify
from proxmesh.theory.following import Looks
from proxmesh.theory.monitor import Inequality, Monitor
from proxmesh.theory.smoothness import Smoothness, estimate_smoothness
from proxmesh.theory.steps import StepCertificate

__all__ = [
    "Certificate",
    "Inequality",
    "Looks",
    "Monitor",
    "Settled",
    "Smoothness",
    "StepCertificate",
    "certify",
    "estimate_smoothness",
    "settled",
]
