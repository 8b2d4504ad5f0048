package import Addressing
import Reactor

/// The simplest program that turns an INVITE into a push, for comparison with the daemon. The relay reads only the
/// callee's number, stores nothing, and sends the push immediately.
///
/// A comparison with the daemon shows how much of a measured time machine, kernel and load take. The relay answers each
/// INVITE with 100, sends pushes over a few open connections, and runs until it is killed.
package enum Relay {
    /// The argument of this program that starts the relay, followed by the port of the push gateway.
    package static let command = "relay"

    private static let connections = 8
    private static let mark = Array("INVITE sip:u".utf8)

    package static func run(pushPort: UInt16, listens: (Endpoint) -> Void) throws(BenchmarkError) {
        do throws(SystemError) {
            let loop = try EventLoop()
            let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
            var streams: [StreamConnection] = []
            for _ in 0..<connections {
                streams.append(
                    try StreamConnection.connect(
                        to: Endpoint(.loopbackV4, pushPort), on: loop,
                        handlers: StreamConnection.Handlers(
                            connected: { _ in }, received: { _, bytes in bytes.count }, closed: { _, _ in })))
            }
            var next = 0
            try socket.receive { batch in
                for index in 0..<batch.count {
                    let source = batch.source(at: index)
                    batch.withBytes(at: index) { bytes in
                        guard let user = ByteSearch.number(after: mark, in: bytes) else { return }
                        socket.queue(trying(bytes), to: source)
                        streams[next % connections].send(push(user))
                        next += 1
                    }
                }
            }
            let stop = try SignalWatch(.terminate, on: loop) { loop.stop() }
            listens(socket.local)
            loop.run()
            withExtendedLifetime(stop) {}
        } catch {
            throw BenchmarkError("no relay: \(error)")
        }
    }

    /// Builds the 100 for an INVITE from the INVITE's header fields and another first line.
    private static func trying(_ invite: Span<UInt8>) -> [UInt8] {
        var answer = Array("SIP/2.0 100 Trying".utf8)
        var isBehindFirstLine = false
        for index in 0..<invite.count {
            if invite[index] == UInt8(ascii: "\r") { isBehindFirstLine = true }
            if isBehindFirstLine { answer.append(invite[index]) }
        }
        return answer
    }

    private static func push(_ user: UInt64) -> [UInt8] {
        let body = "{\"to\":\"\(MessageTexts.tokenMark)\(user)_\"}"
        return Array(
            """
            POST /fcm/send HTTP/1.1\r
            Host: 127.0.0.1\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """.utf8)
    }
}
