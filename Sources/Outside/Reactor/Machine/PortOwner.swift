package import Addressing
import Glibc

/// The process that has bound a port, found in `/proc`.
package struct PortOwner: Hashable, Sendable {
    package let process: Int32
    /// The name of the process's program.
    package let name: String

    package init(process: Int32, name: String) {
        self.process = process
        self.name = name
    }

    /// Finds the process that has bound a port.
    ///
    /// - Parameters:
    ///   - endpoint: the port, at the given address or at all addresses.
    ///   - isStream: whether the port is a TCP port and not a UDP port.
    /// - Returns: the process; `nil` if no process has the port, or this process may not examine the owner.
    package static func of(_ endpoint: Endpoint, isStream: Bool) -> PortOwner? {
        let inodes = Set(
            ["", "6"].flatMap { family in
                ProcessFiles.lines(of: "/proc/net/\(isStream ? "tcp" : "udp")\(family)")
                    .compactMap { inode(in: $0, port: endpoint.port, isStream: isStream) }
            })
        guard !inodes.isEmpty else { return nil }
        for process in ProcessFiles.processes where ProcessFiles.sockets(of: process).contains(where: inodes.contains) {
            return PortOwner(process: process, name: ProcessFiles.name(of: process) ?? "?")
        }
        return nil
    }

    /// The socket's inode in a line of `/proc/net/tcp` or `udp`; `nil` if the line describes another port, or a TCP
    /// socket that does not listen.
    static func inode(in line: String, port: UInt16, isStream: Bool) -> UInt64? {
        let words = line.split(separator: " ")
        guard words.count > 9, let colon = words[1].lastIndex(of: ":"),
            UInt16(words[1][words[1].index(after: colon)...], radix: 16) == port, !isStream || words[3] == "0A"
        else { return nil }
        return UInt64(words[9])
    }
}

/// Reads files about processes and sockets in `/proc`.
package enum ProcessFiles {
    private static let limit = 4 << 20

    /// The lines of a file in `/proc`; empty if the file cannot be read.
    package static func lines(of path: String) -> [String] {
        let number = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard number >= 0 else { return [] }
        defer { close(number) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while bytes.count < limit {
            let count = unsafe read(number, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer.prefix(count)
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The number that is the whole contents of a file, such as a file in `/proc/sys`.
    package static func number(in path: String) -> Int? { lines(of: path).first.flatMap { Int($0) } }

    static var processes: [Int32] { names(in: "/proc").compactMap { Int32($0) } }

    static func name(of process: Int32) -> String? { lines(of: "/proc/\(process)/comm").first }

    /// The maximum number of files and sockets that a process may open; `nil` if this process may not examine it.
    package static func descriptorLimit(of process: Int32) -> Int? {
        lines(of: "/proc/\(process)/limits").first { $0.hasPrefix("Max open files") }
            .flatMap { $0.split(separator: " ").dropFirst(3).first }.flatMap { Int($0) }
    }

    /// The inodes of all sockets that a process has open.
    static func sockets(of process: Int32) -> [UInt64] {
        let folder = "/proc/\(process)/fd"
        return names(in: folder).compactMap { name in
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = unsafe readlink("\(folder)/\(name)", &buffer, buffer.count)
            guard count > 0 else { return nil }
            let text = String(decoding: buffer.prefix(count), as: UTF8.self)
            guard text.hasPrefix("socket:["), text.hasSuffix("]") else { return nil }
            return UInt64(text.dropFirst(8).dropLast())
        }
    }

    private static func names(in folder: String) -> [String] {
        guard let list = unsafe opendir(folder) else { return [] }
        defer { unsafe closedir(list) }
        var names: [String] = []
        while let entry = unsafe readdir(list) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}
