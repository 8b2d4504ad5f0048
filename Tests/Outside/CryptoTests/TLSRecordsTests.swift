import Crypto
import Testing

@Suite("TLS records in memory")
struct TLSRecordsTests {
    /// A client and a server that exchange records without sockets, like two connections of one loop.
    private struct Pair {
        let client: TLSSession
        let server: TLSSession
        let records = TLSRecords()

        init() throws {
            let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            client = try TLSContext.client(authority: .bytes(identity.certificate))
                .makeClientSession(host: "127.0.0.1")
            server = try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key))
                .makeServerSession()
            #expect(client.beginInMemory() && server.beginInMemory())
        }

        func output() -> [UInt8] {
            var bytes: [UInt8] = []
            records.takeOutput { span in for index in span.indices { bytes.append(span[index]) } }
            return bytes
        }

        func open(_ bytes: [UInt8], by session: TLSSession) -> (bytes: [UInt8], end: TLSSession.HandshakeStep) {
            let opened = session.open(bytes.span, with: records)
            var plain: [UInt8] = []
            records.withOpened(opened.count) { span in for index in span.indices { plain.append(span[index]) } }
            return (plain, opened.end)
        }

        /// Passes records of the handshake on until both sides have nothing to say.
        func shakeHands() {
            let step = client.shakeHands(with: records)
            #expect(step == .wantsInput)
            var flight = output()
            var isServersTurn = true
            while !flight.isEmpty {
                _ = open(flight, by: isServersTurn ? server : client)
                flight = output()
                isServersTurn.toggle()
            }
            #expect(client.hasShakenHands && server.hasShakenHands)
        }

        func sealed(_ bytes: [UInt8], by session: TLSSession) -> [UInt8] {
            #expect(seals(bytes, by: session))
            return output()
        }

        /// Whether the records were made. `#expect` takes no span.
        func seals(_ bytes: [UInt8], by session: TLSSession) -> Bool { session.seal(bytes.span, with: records) }
    }

    @Test func `several records in one piece are decrypted by one call`() throws {
        let pair = try Pair()
        pair.shakeHands()
        let input = pair.sealed([1, 2], by: pair.client) + pair.sealed([3], by: pair.client)
        let opened = pair.open(input, by: pair.server)
        #expect(opened.bytes == [1, 2, 3])
        #expect(opened.end == .wantsInput)
    }

    @Test func `a record that arrives byte by byte is decrypted when its last byte is there`() throws {
        let pair = try Pair()
        pair.shakeHands()
        let input = pair.sealed([7, 8, 9], by: pair.client)
        for byte in input.dropLast() { #expect(pair.open([byte], by: pair.server).bytes == []) }
        #expect(pair.open(input.suffix(1), by: pair.server).bytes == [7, 8, 9])
    }

    @Test func `the room suffices for an incomplete longest record and a full input after it`() throws {
        let pair = try Pair()
        pair.shakeHands()
        let block = [UInt8](repeating: 5, count: 16 << 10)
        let first = pair.sealed(block, by: pair.client)
        let short = (0..<800).flatMap { _ in pair.sealed([6], by: pair.client) }
        let start = first.prefix(TLSRecords.inputLimit)
        #expect(pair.open(Array(start), by: pair.server).bytes == [])
        let end = first.dropFirst(start.count)
        let rest = end + short.prefix(TLSRecords.inputLimit - end.count)
        let opened = pair.open(Array(rest), by: pair.server)
        #expect(opened.bytes.prefix(block.count) == block[...])
        #expect(opened.bytes.dropFirst(block.count).allSatisfy { $0 == 6 })
        #expect(opened.end == .wantsInput)
    }

    @Test func `a long output makes several records, which arrive whole`() throws {
        let pair = try Pair()
        pair.shakeHands()
        let block = (0..<200_000).map { UInt8(truncatingIfNeeded: $0) }
        var input = pair.sealed(block, by: pair.server)[...]
        var plain: [UInt8] = []
        while !input.isEmpty {
            let part = input.prefix(1000)
            input = input.dropFirst(1000)
            plain += pair.open(Array(part), by: pair.client).bytes
        }
        #expect(plain == block)
    }

    @Test func `bytes before a close_notify count, and its end is no error`() throws {
        let pair = try Pair()
        pair.shakeHands()
        var input = pair.sealed([4], by: pair.client)
        pair.client.shutDown(with: pair.records)
        input += pair.output()
        let opened = pair.open(input, by: pair.server)
        #expect(opened.bytes == [4])
        #expect(opened.end == .ended)
        // The server may still answer.
        let answer = pair.sealed([5], by: pair.server)
        #expect(!answer.isEmpty)
    }

    @Test func `a changed record fails the session, and the peer gets an alert`() throws {
        let pair = try Pair()
        pair.shakeHands()
        var input = pair.sealed([1, 2, 3], by: pair.client)
        input[input.count - 1] ^= 1
        let opened = pair.open(input, by: pair.server)
        #expect(opened.bytes == [])
        guard case .failed = opened.end else {
            Issue.record("the record was accepted: \(opened.end)")
            return
        }
        #expect(!pair.output().isEmpty)
        #expect(!pair.seals([1], by: pair.server))
    }

    @Test func `output that nobody took is not sent by the next session`() throws {
        let (one, other) = (try Pair(), try Pair())
        one.shakeHands()
        other.shakeHands()
        let isSealed = one.client.seal([1].span, with: other.records)
        #expect(isSealed)
        other.records.dropOutput()
        #expect(other.open(other.sealed([2], by: other.client), by: other.server).bytes == [2])
    }
}
