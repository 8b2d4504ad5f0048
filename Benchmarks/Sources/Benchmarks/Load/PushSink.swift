import Addressing
import HTTPServer
import Reactor
import Timekeeping

/// A push gateway with FCM's legacy interface, which accepts each push and reports its user.
final class PushSink {
    let port: UInt16
    private let listener: HTTPListener
    private let delays: Delays

    private static let accepted = HTTPResponse(
        type: "application/json",
        body: Array(
            #"{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}"#.utf8))
    private static let mark = Array(MessageTexts.tokenMark.utf8)

    /// The delayed replies, in the order of the pushes, because all replies have the same delay.
    private final class Delays {
        var waiting: [(due: Instant, reply: HTTPReply)] = []
        var timer: LoopTimer?
    }

    /// Creates a push gateway that answers each push after the given delay.
    init(
        on loop: EventLoop, delay: Duration = .zero, pushed: @escaping (_ user: Int) -> Void
    ) throws(BenchmarkError) {
        let delays = Delays()
        self.delays = delays
        do {
            delays.timer = try LoopTimer(on: loop) { [unowned delays] in
                let due = delays.waiting.prefix { $0.due <= loop.now }
                delays.waiting.removeFirst(due.count)
                for (_, reply) in due { reply.send(Self.accepted) }
                if let next = delays.waiting.first { delays.timer?.arm(at: next.due) }
            }
            listener = try HTTPListener(on: loop) { request, reply in
                let user = ByteSearch.number(after: Self.mark, in: request.body.span)
                if delay == .zero {
                    reply.send(Self.accepted)
                } else {
                    delays.waiting.append((loop.now + delay, reply))
                    if delays.waiting.count == 1 { delays.timer?.arm(at: loop.now + delay) }
                }
                if let user { pushed(Int(truncatingIfNeeded: user)) }
            }
            port = try listener.listen(on: Endpoint(.loopbackV4, 0)).port
        } catch {
            throw BenchmarkError("no push sink: \(error)")
        }
    }

    func close() { listener.close() }
}
