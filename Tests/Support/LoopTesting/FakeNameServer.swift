package import Addressing
package import Reactor

package enum FakeRecord: Sendable {
    case a(UInt32)
    case aaaa(high: UInt64, low: UInt64)
    case srv(priority: UInt16, weight: UInt16, port: UInt16, target: String)
    case naptr(order: UInt16, preference: UInt16, service: String, replacement: String)

    var type: UInt16 {
        switch self {
        case .a: 1
        case .aaaa: 28
        case .srv: 33
        case .naptr: 35
        }
    }

    var data: [UInt8] {
        switch self {
        case .a(let bits): bits.networkBytes
        case .aaaa(let high, let low): high.networkBytes + low.networkBytes
        case .srv(let priority, let weight, let port, let target):
            priority.networkBytes + weight.networkBytes + port.networkBytes + FakeMessage.name(target)
        case .naptr(let order, let preference, let service, let replacement):
            order.networkBytes + preference.networkBytes + FakeMessage.text("s") + FakeMessage.text(service)
                + FakeMessage.text("") + FakeMessage.name(replacement)
        }
    }
}

/// A DNS response of the fake name server.
package struct FakeMessage {
    package private(set) var bytes: [UInt8]

    package init(question: String, type: UInt16, identifier: [UInt8] = [0, 1], code: UInt8 = 0) {
        bytes =
            identifier + [0x85, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0] + Self.name(question) + type.networkBytes + [0, 1]
    }

    package mutating func add(_ record: FakeRecord, timeToLive: UInt32) {
        let count = UInt16(bytes[6]) << 8 + UInt16(bytes[7]) + 1
        bytes.replaceSubrange(6..<8, with: count.networkBytes)
        // The record's name is a compression pointer to the name in the query.
        bytes += [0xc0, 12] + record.type.networkBytes + [0, 1] + timeToLive.networkBytes
        bytes += UInt16(record.data.count).networkBytes + record.data
    }

    static func name(_ name: String) -> [UInt8] {
        name.split(separator: ".").flatMap { text(String($0)) } + [0]
    }

    static func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
}

extension FixedWidthInteger {
    var networkBytes: [UInt8] {
        (0..<Self.bitWidth / 8).reversed().map { UInt8(truncatingIfNeeded: self >> ($0 * 8)) }
    }
}

/// A fake name server on loopback, which answers from a table of records.
package actor FakeNameServer {
    package enum Zone: Sendable {
        case records([FakeRecord], timeToLive: UInt32)
        case serverFailure
        case silence
    }

    package let loop: EventLoop
    package nonisolated let asked = Mailbox<String>()
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private let zones: [String: Zone]
    private var socket: UDPSocket?

    package init(_ loop: EventLoop, _ zones: [String: Zone]) {
        self.loop = loop
        self.zones = zones
    }

    package func listen() throws -> Endpoint {
        let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
        self.socket = socket
        try socket.receive { batch in
            for index in 0..<batch.count {
                let query = batch.withBytes(at: index) { span in span.indices.map { span[$0] } }
                if let answer = self.answer(query) { socket.queue(answer, to: batch.source(at: index)) }
            }
        }
        return socket.local
    }

    private func answer(_ query: [UInt8]) -> [UInt8]? {
        var labels: [String] = []
        var position = 12
        while query[position] != 0 {
            let end = position + 1 + Int(query[position])
            labels.append(String(decoding: query[position + 1..<end], as: UTF8.self))
            position = end
        }
        let name = labels.joined(separator: ".").lowercased()
        let type = UInt16(query[position + 1]) << 8 + UInt16(query[position + 2])
        asked.put("\(name) \(type)")
        let identifier = Array(query[0..<2])
        switch zones[name] {
        case nil: return FakeMessage(question: name, type: type, identifier: identifier, code: 3).bytes
        case .silence: return nil
        case .serverFailure: return FakeMessage(question: name, type: type, identifier: identifier, code: 2).bytes
        case .records(let records, let timeToLive):
            var message = FakeMessage(question: name, type: type, identifier: identifier)
            for record in records where record.type == type { message.add(record, timeToLive: timeToLive) }
            return message.bytes
        }
    }

    package func close() {
        socket?.close()
        socket = nil
    }
}
