import Foundation

/// Where a place of a scenario is: an address of this machine.
package struct Place: Hashable, Sendable, CustomStringConvertible {
    package var address = "127.0.0.1"
    package var port: Int

    package var description: String { "\(address):\(port)" }
}

/// Hands out ports that nobody on this machine uses, from below the range the kernel takes its own from.
struct LocalPorts {
    private var next = Int.random(in: 20_000..<28_000)

    /// A port that is free for UDP and TCP at all of this machine's addresses.
    mutating func take() -> Int {
        let used = Self.used()
        repeat { next = next < 28_000 ? next + 1 : 20_000 } while used.contains(next)
        return next
    }

    static func used() -> Set<Int> {
        Set(["udp", "tcp", "udp6", "tcp6"].flatMap { used(by: $0) })
    }

    /// Whether somebody takes datagrams and connections there.
    static func isServed(_ port: Int) -> Bool { used(by: "udp").contains(port) && used(by: "tcp").contains(port) }

    /// Whether somebody takes connections there.
    static func isListening(_ port: Int) -> Bool { used(by: "tcp").contains(port) }

    private static func used(by table: String) -> [Int] {
        guard let file = FileHandle(forReadingAtPath: "/proc/net/" + table) else { return [] }
        // The kernel gives a long table in pieces, however much is asked for.
        var text = Data()
        while let more = try? file.read(upToCount: 1 << 16), !more.isEmpty { text += more }
        return ports(in: String(decoding: text, as: UTF8.self))
    }

    /// The local ports of a table such as `/proc/net/udp`: the second word of a line is an address and a port in hex.
    static func ports(in table: String) -> [Int] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            return words.count > 1 ? words[1].split(separator: ":").last.flatMap { Int($0, radix: 16) } : nil
        }
    }
}
