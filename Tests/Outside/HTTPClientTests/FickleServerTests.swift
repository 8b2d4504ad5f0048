import HTTP2
import HTTPClient
import LoopTesting
import Reactor
import TestSupport
import Testing

@Suite("HTTP/2 against an unstable server", .timeLimit(.minutes(10)))
struct FickleServerTests {
    /// The requests that the fickle server got, and the faults that it caused.
    private struct Record: Sendable {
        var looked: [String: Int] = [:]
        var random: SeededGenerator
        var refusals = 0
        var goodbyes = 0
        var drops = 0
        /// The last stream, for each connection, that a GOAWAY of the server named. The HTTP/2 test server ignores
        /// streams with numbers above the number in its GOAWAY.
        var last: [Int: Int32] = [:]
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `no request is lost and none is processed twice`(seed: UInt64) async throws {
        let count = 1500
        let record = Locked(Record(random: SeededGenerator(seed: seed)))
        try await HTTP2Fixture.with(streams: 50) { fixture in
            await fixture.server.setPolicy { arrival, connection, server in
                record.withLock { record in
                    guard arrival.stream <= record.last[arrival.connection] ?? .max else { return }
                    switch record.random.next() % 200 {
                    case 0:
                        record.refusals += 1
                        server.reset(arrival.stream, .refusedStream)
                    case 1:
                        record.goodbyes += 1
                        record.last[arrival.connection] = arrival.stream - 2
                        server.goAway(lastStream: arrival.stream - 2)
                    case 2:
                        record.drops += 1
                        record.looked[arrival.request.path, default: 0] += 1
                        connection.close()
                    default:
                        record.looked[arrival.request.path, default: 0] += 1
                        server.answer(arrival.stream, status: 200)
                    }
                }
            }
            let ends = Mailbox<(String, Result<HTTPClientResponse, HTTPClientError>)>()
            fixture.session.loop.post { [session = fixture.session, request = fixture.request] in
                for number in 0..<count {
                    var request = request
                    request.url += "\(number)"
                    session.send(request) { ends.put(("/\(number)", $0)) }
                }
            }
            var outcomes: [String: Result<HTTPClientResponse, HTTPClientError>] = [:]
            for _ in 0..<count {
                let (path, outcome) = try await ends.next()
                #expect(outcomes.updateValue(outcome, forKey: path) == nil)
            }
            let record = record.withLock { $0 }
            #expect(record.refusals > 0 && record.goodbyes > 0 && record.drops > 0)
            var answered = 0
            for (path, outcome) in outcomes {
                let looked = record.looked[path] ?? 0
                #expect(looked <= 1)
                switch outcome {
                case .success:
                    #expect(looked == 1)
                    answered += 1
                case .failure(let error):
                    #expect(error.code == .reset)
                }
            }
            #expect(answered > count / 2)
        }
    }
}
