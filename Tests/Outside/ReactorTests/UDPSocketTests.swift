import Addressing
import LoopTesting
import Reactor
import ScenarioReplay
import Testing

@Suite("UDP socket", .timeLimit(.minutes(10)))
struct UDPSocketTests {
    struct Datagram: Sendable, Equatable {
        let bytes: [UInt8]
        let source: Endpoint
    }

    /// Two UDP sockets on loopback. The mailbox receives, batch by batch, the datagrams of the second socket.
    actor Pair {
        let loop: EventLoop
        let mailbox: Mailbox<[Datagram]>
        var sender: UDPSocket?
        var receiver: UDPSocket?
        var batches = 0
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop, _ mailbox: Mailbox<[Datagram]>) {
            self.loop = loop
            self.mailbox = mailbox
        }

        func open(_ address: IPAddress, datagramLimit: Int) throws -> (Endpoint, Endpoint) {
            let sender = try UDPSocket(boundTo: Endpoint(address, 0), on: loop)
            let receiver = try UDPSocket(boundTo: Endpoint(address, 0), on: loop, datagramLimit: datagramLimit)
            // The closure needs no `assumeIsolated`, because the socket calls it only on the loop's thread.
            try receiver.receive { batch in
                self.batches += 1
                self.mailbox.put(
                    (0..<batch.count).map { index in
                        Datagram(
                            bytes: batch.withBytes(at: index) { span in span.indices.map { span[$0] } },
                            source: batch.source(at: index))
                    })
            }
            self.sender = sender
            self.receiver = receiver
            return (sender.local, receiver.local)
        }

        func send(_ datagrams: [[UInt8]], to target: Endpoint) {
            for datagram in datagrams { sender?.queue(datagram, to: target) }
        }

        /// Closes the sockets, so that actor, socket and handler no longer refer to each other.
        func close() {
            receiver?.close()
            sender?.close()
        }

        func senderCounters() -> DatagramCounters? { sender?.counters }

        func receiverCounters() -> DatagramCounters? { receiver?.counters }
    }

    private func withPair(_ body: (Pair, Mailbox<[Datagram]>) async throws -> Void) async throws {
        try await withLoop { loop in
            let mailbox = Mailbox<[Datagram]>()
            let pair = Pair(loop, mailbox)
            try await body(pair, mailbox)
            await pair.close()
        }
    }

    @Test func `datagrams that the kernel had no room for are counted`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let drops = try await bench.run { bench in
                // Nobody reads from the receiving socket, whose buffer has room for at most eight megabytes.
                let receiver = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop)
                let sender = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop)
                #expect(receiver.receiveDrops == 0)
                let block = [UInt8](repeating: 1, count: 32 << 10)
                for _ in 0..<1000 where receiver.receiveDrops == 0 {
                    sender.queue(block, to: receiver.local)
                    sender.flush()
                }
                let drops = receiver.receiveDrops
                receiver.close()
                sender.close()
                return drops
            }
            #expect(drops > 0)
        }
    }

    @Test(arguments: [IPAddress.loopbackV4, IPAddress(high: 0, low: 1)])
    func `datagrams arrive with their source`(address: IPAddress) async throws {
        try await withPair { pair, mailbox in
            let (source, target) = try await pair.open(address, datagramLimit: 2000)
            await pair.send([[1, 2, 3], [], [UInt8](repeating: 7, count: 2000)], to: target)
            var got: [Datagram] = []
            while got.count < 3 { got += try await mailbox.next() }
            #expect(got.map(\.bytes) == [[1, 2, 3], [], [UInt8](repeating: 7, count: 2000)])
            #expect(got.allSatisfy { $0.source == source })
        }
    }

    @Test func `a burst comes in batches and in order`() async throws {
        try await withPair { pair, mailbox in
            let (_, target) = try await pair.open(.loopbackV4, datagramLimit: 65_535)
            await pair.send((0..<1500).map { [UInt8($0 >> 8), UInt8($0 & 255)] }, to: target)
            var got: [Datagram] = []
            while got.count < 1500 {
                let batch = try await mailbox.next()
                #expect(batch.count <= DatagramBatch.capacity)
                got += batch
            }
            #expect(got.map { Int($0.bytes[0]) << 8 | Int($0.bytes[1]) } == Array(0..<1500))
            #expect(await pair.senderCounters() == DatagramCounters(received: 0, sent: 1500))
            #expect(await pair.receiverCounters()?.received == 1500)
        }
    }

    @Test func `a datagram longer than the limit is cut`() async throws {
        try await withPair { pair, mailbox in
            let (_, target) = try await pair.open(.loopbackV4, datagramLimit: 100)
            await pair.send([[UInt8](repeating: 1, count: 101)], to: target)
            let got = try await mailbox.next()
            #expect(got.map(\.bytes.count) == [100])
        }
    }

    @Test func `one refused datagram does not delay the next ones`() async throws {
        try await withPair { pair, mailbox in
            let (_, target) = try await pair.open(.loopbackV4, datagramLimit: 65_535)
            await pair.send([[1]], to: Endpoint(IPAddress(high: 0, low: 1), target.port))
            await pair.send([[UInt8](repeating: 0, count: 65_535)], to: target)
            await pair.send([[2]], to: target)
            #expect(try await mailbox.next().map(\.bytes) == [[2]])
            #expect(await pair.senderCounters()?.sendFailures == 2)
        }
    }

    @Test func `a port can be used by one socket and again after it closed`() async throws {
        try await withLoop { loop in
            try await Bench(loop).run { bench in
                let port = try #require(ReservedPort.any())
                defer { withExtendedLifetime(port) {} }
                let local = Endpoint(.loopbackV4, port.number)
                let first = try UDPSocket(boundTo: local, on: bench.loop)
                #expect { try UDPSocket(boundTo: first.local, on: bench.loop) } throws: {
                    ($0 as? SystemError)?.isAddressInUse == true
                }
                first.close()
                // A child process of another test may keep a copy of the socket until its `exec`, so the port can stay
                // in use for a moment.
                var second: UDPSocket?
                while second == nil {
                    do { second = try UDPSocket(boundTo: first.local, on: bench.loop) } catch let error as SystemError {
                        try #require(error.isAddressInUse)
                    }
                }
                #expect(second?.local == first.local)
            }
        }
    }
}
