import Foundation

/// The local IP address and port of one participant in a scenario.
package struct Place: Hashable, Sendable, CustomStringConvertible {
    package var address = "127.0.0.1"
    package var port: Int

    package var description: String { "\(address):\(port)" }
}

/// Reserves local ports for the programs of a scenario, until the ``LocalPorts`` is released.
struct LocalPorts {
    private var kept: [ReservedPort] = []

    /// Reserves a port that no program uses for UDP or TCP at any address of this machine.
    mutating func take() throws(ReplayError) -> Int {
        guard let port = ReservedPort.any() else { throw ReplayError("no port is free") }
        kept.append(port)
        return Int(port.number)
    }

    /// The address ``ReservedPort/keeper`` as written in `/proc/net`: hexadecimal, with the last byte first.
    private static let keeper = String(ReservedPort.keeper.byteSwapped, radix: 16, uppercase: true)[...]

    /// Whether a program accepts both datagrams and connections on the given port.
    static func isServed(_ port: Int) -> Bool { used(by: "udp").contains(port) && used(by: "tcp").contains(port) }

    /// Whether a program accepts connections on the given port.
    static func isListening(_ port: Int) -> Bool { used(by: "tcp").contains(port) }

    /// The local ports in one of the tables of `/proc/net`, except ports that only a ``ReservedPort`` uses.
    static func used(by table: String) -> Set<Int> {
        guard let file = FileHandle(forReadingAtPath: "/proc/net/" + table) else { return [] }
        // The kernel returns a long table in several pieces, even for one large read.
        var text = Data()
        while let more = try? file.read(upToCount: 1 << 16), !more.isEmpty { text += more }
        return Set(ports(in: String(decoding: text, as: UTF8.self)))
    }

    /// The local ports in the text of a kernel table such as `/proc/net/udp`. The second word of each line is an
    /// address and a port in hexadecimal.
    static func ports(in table: String) -> [Int] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            guard words.count > 1 else { return nil }
            let place = words[1].split(separator: ":")
            return place.first == keeper ? nil : place.last.flatMap { Int($0, radix: 16) }
        }
    }
}
