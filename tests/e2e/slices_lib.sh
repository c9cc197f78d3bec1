# Sourced by the tests of MIG instances: queries the instances of the emulated driver and their processes.
has_memory() {
  divvy gpus --json | python3 -c 'import json, sys
sys.exit(not any(t["job"] == int(sys.argv[1]) and t["used_bytes"] > 10**9 for g in json.load(sys.stdin) for t in g["tenants"]))' "$1"
}
# Queries NVML, like any other program.
nvml() {
  python3 - "$DIVVY_HOME/emulate/libnvidia-ml.so.1" "$1" <<'END'
import ctypes, sys
nvml = ctypes.CDLL(sys.argv[1])
assert nvml.nvmlInit_v2() == 0
gpu, mig = ctypes.c_void_p(), ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(int(sys.argv[2]), ctypes.byref(gpu)) == 0
current, pending = ctypes.c_uint(), ctypes.c_uint()
nvml.nvmlDeviceGetMigMode(gpu, ctypes.byref(current), ctypes.byref(pending))
count = sum(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i, ctypes.byref(mig)) == 0 for i in range(7))
print("on" if current.value else "off", count)
END
}
mig_is() { [ "$(nvml "$1" | cut -d' ' -f1)" = "$2" ]; }
slices_are() { [ "$(nvml "$1" | cut -d' ' -f2)" = "$2" ]; }
