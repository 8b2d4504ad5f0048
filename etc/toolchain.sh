# Sourced by etc/release and etc/profile-release: the compiler options for optimisation, which both must use, and the place of
# the compiler's files.

# The linker optimises all modules as one program, and the program uses no register for frame pointers.
optimised=(-c release --experimental-lto-mode full --omit-frame-pointers)
# The program resolves all addresses of libraries at its start, and nobody can overwrite them afterwards.
optimised+=(-Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now)
# In a profile, a private function is named by its module and its file. Without the compiler's option for file names, a
# name would contain the build folder, which differs on each machine.
optimised+=(-Xswiftc -Xllvm -Xswiftc -static-func-full-module-prefix=false)

resources=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
llvm_profdata=$resources/../../bin/llvm-profdata
