import Foundation

/// Hands out ports that nobody on this machine uses, from below the range the kernel takes its own from.
struct LocalPorts {
    private var next = Int.random(in: 20_000..<28_000)

    /// A port of 127.0.0.1 that is free for UDP and TCP.
    mutating func take() -> Int {
        let used = Self.used()
        repeat { next = next < 28_000 ? next + 1 : 20_000 } while used.contains(next)
        return next
    }

    static func used() -> Set<Int> {
        let files = ["/proc/net/udp", "/proc/net/tcp", "/proc/net/udp6", "/proc/net/tcp6"]
        return Set(files.compactMap { try? String(contentsOfFile: $0, encoding: .ascii) }.flatMap { ports(in: $0) })
    }

    /// The local ports of a table such as `/proc/net/udp`: the second word of a line is an address and a port in hex.
    static func ports(in table: String) -> [Int] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            return words.count > 1 ? words[1].split(separator: ":").last.flatMap { Int($0, radix: 16) } : nil
        }
    }
}
