import Foundation

/// The local address of a participant (`place`) of a scenario.
package struct Place: Hashable, Sendable, CustomStringConvertible {
    package var address = "127.0.0.1"
    package var port: Int

    package var description: String { "\(address):\(port)" }
}

/// Assigns free ports. Each port is reserved until this object is released.
struct LocalPorts {
    private var kept: [ReservedPort] = []

    /// Reserves a port that is free for UDP and TCP at all addresses of this machine.
    mutating func take() throws(ReplayError) -> Int {
        guard let port = ReservedPort.any() else { throw ReplayError("no port is free") }
        kept.append(port)
        return Int(port.number)
    }

    /// The address of ``ReservedPort/keeper`` as it is written in the kernel's tables, with the last byte first.
    private static let keeper = String(ReservedPort.keeper.byteSwapped, radix: 16, uppercase: true)[...]

    /// Whether a program accepts datagrams and connections on this port.
    static func isServed(_ port: Int) -> Bool { used(by: "udp").contains(port) && used(by: "tcp").contains(port) }

    /// Whether a program accepts connections on this port.
    static func isListening(_ port: Int) -> Bool { used(by: "tcp").contains(port) }

    /// The local ports in one of the kernel's tables. Ports that are only reserved by ``ReservedPort`` are left out.
    static func used(by table: String) -> Set<Int> {
        guard let file = FileHandle(forReadingAtPath: "/proc/net/" + table) else { return [] }
        // The kernel returns a long table in pieces, even if a larger piece is requested.
        var text = Data()
        while let more = try? file.read(upToCount: 1 << 16), !more.isEmpty { text += more }
        return Set(ports(in: String(decoding: text, as: UTF8.self)))
    }

    /// The local ports in the text of a table such as `/proc/net/udp`. The second word of each line is an address and a
    /// port in hexadecimal.
    static func ports(in table: String) -> [Int] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let words = line.split(separator: " ", maxSplits: 2)
            guard words.count > 1 else { return nil }
            let place = words[1].split(separator: ":")
            return place.first == keeper ? nil : place.last.flatMap { Int($0, radix: 16) }
        }
    }
}
