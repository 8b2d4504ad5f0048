# Sourced by etc/release and etc/profile-release: how the programs are optimised, which both must tell the compiler alike, and
# where that has its own files.

# All modules are optimised as one program when it is linked, and no register is spent on the frame of each function.
optimised=(-c release --experimental-lto-mode full --omit-frame-pointers)
# All addresses of libraries are found at the start, and cannot be written afterwards.
optimised+=(-Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now)
# In a profile a function that is private to its module goes by the name of its file; not by that of the folder as well, which
# is another one on each machine.
optimised+=(-Xswiftc -Xllvm -Xswiftc -static-func-full-module-prefix=false)

resources=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
llvm_profdata=$resources/../../bin/llvm-profdata
