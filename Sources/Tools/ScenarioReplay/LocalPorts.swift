import Foundation

/// Where a place of a scenario is: an address of this machine.
package struct Place: Hashable, Sendable, CustomStringConvertible {
    package var address = "127.0.0.1"
    package var port: Int

    package var description: String { "\(address):\(port)" }
}

/// Hands out ports, each of which is reserved until this is gone.
struct LocalPorts {
    private var kept: [ReservedPort] = []

    /// A port that is free for UDP and TCP at all of this machine's addresses.
    mutating func take() throws(ReplayError) -> Int {
        guard let port = ReservedPort.any() else { throw ReplayError("no port is free") }
        kept.append(port)
        return Int(port.number)
    }

    /// As the kernel writes it: the bytes from the last to the first.
    private static let keeper = String(ReservedPort.keeper.byteSwapped, radix: 16, uppercase: true)[...]

    /// Whether somebody takes datagrams and connections there.
    static func isServed(_ port: Int) -> Bool { used(by: "udp").contains(port) && used(by: "tcp").contains(port) }

    /// Whether somebody takes connections there.
    static func isListening(_ port: Int) -> Bool { used(by: "tcp").contains(port) }

    /// The local ports in one of the kernel's tables, but for those that are only kept.
    static func used(by table: String) -> Set<Int> {
        guard let file = FileHandle(forReadingAtPath: "/proc/net/" + table) else { return [] }
        // The kernel gives a long table in pieces, however much is asked for.
        var text = Data()
        while let more = try? file.read(upToCount: 1 << 16), !more.isEmpty { text += more }
        return Set(ports(in: String(decoding: text, as: UTF8.self)))
    }

    /// The local ports of a table such as `/proc/net/udp`: the second word of a line is an address and a port in hex.
    static func ports(in table: String) -> [Int] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            guard words.count > 1 else { return nil }
            let place = words[1].split(separator: ":")
            return place.first == keeper ? nil : place.last.flatMap { Int($0, radix: 16) }
        }
    }
}
