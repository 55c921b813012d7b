#!/bin/bash
# sbatch examples/deploy/slurm.sh: eight agents on two nodes, one agent a task.
#SBATCH --job-name=proxmesh
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=2G
#SBATCH --time=01:00:00
#SBATCH --output=proxmesh-%j.log

set -eu
# module load openmpi  # where MPI is a module
. .venv/bin/activate

export OMP_NUM_THREADS="$SLURM_CPUS_PER_TASK"
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK" # srun does not take it from sbatch

# Task i opens agent-i.npz (.csv, .libsvm) and no other: DATA may be a disk of the node.
exec srun --mpi=pmix \
  proxmesh run --engine mpi --agents 8 --data-dir "${DATA:-data}" \
  --out "runs/slurm-$SLURM_JOB_ID" --timeout 120
