import Addressing
import HTTPServer
import Reactor
import Timekeeping

/// A gateway that speaks FCM's legacy interface, takes every push and says which user it was for.
final class PushSink {
    let port: UInt16
    private let listener: HTTPListener

    private static let accepted = HTTPResponse(
        type: "application/json",
        body: Array(
            #"{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}"#.utf8))
    private static let mark = Array(MessageTexts.tokenMark.utf8)

    init(on loop: EventLoop, pushed: @escaping (_ user: Int) -> Void) throws(BenchmarkError) {
        do {
            listener = try HTTPListener(on: loop) { request, reply in
                let user = ByteSearch.number(after: Self.mark, in: request.body.span)
                reply.send(Self.accepted)
                if let user { pushed(Int(truncatingIfNeeded: user)) }
            }
            port = try listener.listen(on: Endpoint(.loopbackV4, 0)).port
        } catch {
            throw BenchmarkError("no push sink: \(error)")
        }
    }

    func close() { listener.close() }
}
