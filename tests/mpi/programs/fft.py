"""A transposing FFT by mpi4py-fft: grids of two and three dimensions, real and complex, distributed along one axis and along
two (slabs and pencils), are transformed, compared with numpy's FFT of the whole grid, and transformed back. Between the axes
mpi4py-fft redistributes the grid by MPI_Alltoallw with subarrays, on communicators of the rows and columns of ranks.

    fft.py SEED [ROUNDS]     with mpi4py-fft in TEST_FFT_PACKAGES, a folder of packages"""

import os
import sys

import numpy
from mpi4py import MPI

sys.path.append(os.environ["TEST_FFT_PACKAGES"])  # behind this MPI's own mpi4py
from mpi4py_fft import PFFT, newDistArray  # noqa: E402

CASES = [((24, 35), (0, 1)), ((17, 12, 20), (0, 1, 2)), ((9, 16, 10), (2, 0, 1)), ((30, 8, 11), (1, 2))]


def random_grid(seed: int, shape: tuple[int, ...], dtype: type) -> numpy.ndarray:
    """The same on all ranks."""
    random = numpy.random.default_rng(seed)
    grid = random.standard_normal(shape)
    return (grid + 1j * random.standard_normal(shape) if dtype is complex else grid).astype(dtype)


def reference(grid: numpy.ndarray, axes: tuple[int, ...]) -> numpy.ndarray:
    """Forward transforms of mpi4py-fft are normalised."""
    transform = numpy.fft.fftn if numpy.iscomplexobj(grid) else numpy.fft.rfftn
    return transform(grid, axes=axes) / numpy.prod([grid.shape[axis] for axis in axes])


def check(comm: MPI.Comm, seed: int, shape: tuple[int, ...], axes: tuple[int, ...], dtype: type, slab: bool) -> int:
    """How many of its two results are wrong on this rank."""
    fft = PFFT(comm, shape, axes=axes, dtype=dtype, grid=(-1,) if slab else None)
    whole = random_grid(seed, shape, dtype)
    given, transformed = newDistArray(fft, False), newDistArray(fft, True)
    given[...] = whole[given.local_slice()]
    fft.forward(given, transformed)
    wrong = not numpy.allclose(transformed, reference(whole, axes)[transformed.local_slice()], rtol=1e-10, atol=1e-12)
    back = newDistArray(fft, False)
    fft.backward(transformed, back)
    wrong += not numpy.allclose(back, whole[back.local_slice()], rtol=1e-10, atol=1e-12)
    fft.destroy()
    if wrong:
        print(f"rank {comm.rank}: {shape} along {axes}, {dtype.__name__}, {'slabs' if slab else 'pencils'}: wrong", flush=True)
    return int(wrong)


def main() -> None:
    comm, seed, rounds = MPI.COMM_WORLD, int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 1
    if comm.rank == 0:
        print(f"seed {seed}")
    failures = sum(check(comm, seed + number, shape, axes, dtype, slab) for number, (shape, axes) in enumerate(CASES * rounds)
                   for dtype in (float, complex) for slab in (True, False))
    failures = comm.allreduce(failures)
    if comm.rank == 0:
        print(f"fft: {'FAILED' if failures else 'passed'} ({failures} failures)")
    sys.exit(failures != 0)


main()
