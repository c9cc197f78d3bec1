# OpenMPI's mpirun and MPICH's mpiexec in a job on two nodes: they find its nodes, and start their processes there.
set -eu
for program in mpicc.openmpi mpirun.openmpi mpicc.mpich mpiexec.hydra; do
  command -v $program >/dev/null && continue
  echo "there is no $program: apt-get install libopenmpi-dev openmpi-bin libmpich-dev mpich"
  exit 1
done
. "$(dirname "$0")/nodes.sh"
cat >sum.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %d on %s\n", rank, size, sum, getenv("DIVVY_NODE"));
  MPI_Finalize();
  return 0;
}
END
mpicc.openmpi sum.c -o sum.openmpi
mpicc.mpich sum.c -o sum.mpich
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --time=10 --nodelist=n1,n2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Both nodes are this machine, which neither shared memory nor its other addresses expect.
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
$1
END
for start in "mpirun.openmpi ./sum.openmpi" "mpiexec.hydra ./sum.mpich"; do
  timeout 120 sbatch --wait -o mpi.out job.sh "$start" >/dev/null || { echo "$start:"; cat mpi.out; exit 1; }
  [ "$(grep -c ' of 4: 6 on n[12]$' mpi.out)" = 4 ] || { echo "$start:"; cat mpi.out; exit 1; }
done
echo "OpenMPI $(mpirun.openmpi --version | head -n 1 | grep -oE '[0-9.]+$') and MPICH $(mpiexec.hydra --version | sed -n 's/ *Version: *//p'): four ranks on two nodes"
