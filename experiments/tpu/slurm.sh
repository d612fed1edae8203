#!/bin/bash
# A training under Slurm, one process per node with all of its GPUs. It is queued again by itself when it is preempted or
# its time is over.
#     sbatch experiments/tpu/slurm.sh hex6 --out /shared/runs/hex6
#SBATCH --job-name=azjax
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120
# The line above has SIGTERM sent to the steps two minutes before the end, which is time to save. A process that was
# stopped by it ends with 75; the folder of the run must be one that all nodes see.
srun --kill-on-bad-exit=1 azjax train "$@" --resume auto --distributed auto,600
code=$?
if [ "$code" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
