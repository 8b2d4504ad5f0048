# Sourced by etc/release and etc/profile-release: the compiler options for optimisation, which both must use, and the place of
# the compiler's files.

# All modules are optimised as one program when it is linked, and no register is used for frame pointers.
optimised=(-c release --experimental-lto-mode full --omit-frame-pointers)
# All addresses of libraries are resolved at the start, and cannot be overwritten afterwards.
optimised+=(-Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now)
# In a profile, a private function is named by its module and its file. Without this option the name would also contain the
# folder, which differs on each machine.
optimised+=(-Xswiftc -Xllvm -Xswiftc -static-func-full-module-prefix=false)

resources=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
llvm_profdata=$resources/../../bin/llvm-profdata
