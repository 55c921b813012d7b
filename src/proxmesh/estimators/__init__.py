"""scikit-learn estimators over `proxmesh.solve`; imported when they are asked for."""

from proxmesh.estimators.classifier import DecentralizedClassifier
from proxmesh.estimators.regressor import DecentralizedRegressor

__all__ = ["DecentralizedClassifier", "DecentralizedRegressor"]
