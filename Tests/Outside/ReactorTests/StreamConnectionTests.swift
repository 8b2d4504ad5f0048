import Addressing
import Glibc
import LoopTesting
import Reactor
import TestSupport
import Testing

@Suite("Stream connection", .timeLimit(.minutes(10)))
struct StreamConnectionTests {
    private func withBench(_ body: (StreamBench) async throws -> Void) async throws {
        try await StreamBench.with(body)
    }

    /// Runs a test with a bench and one connection that is open on both sides.
    private func withPair(
        limits: StreamConnection.Limits = .init(), _ body: (StreamBench) async throws -> Void
    ) async throws {
        try await withBench { bench in
            try await bench.connect(to: bench.listen(limits: limits))
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            guard case .connected = try await bench.server.next() else { throw Unexpected() }
            guard case .connected = try await bench.client.next() else { throw Unexpected() }
            try await body(bench)
        }
    }

    struct Unexpected: Error {}

    @Test(arguments: [IPAddress.loopbackV4, IPAddress(high: 0, low: 1)])
    func `bytes go both ways, also those sent before the connection is open`(address: IPAddress) async throws {
        try await withBench { bench in
            let target = try await bench.listen(Endpoint(address, 0))
            try await bench.connect(to: target)
            await bench.at(.client) { $0.send([1, 2]) }
            try await bench.client.expect(.connected)
            let clientEnd = await bench.at(.client) { $0.local }
            try await bench.server.expect(.accepted(remote: clientEnd), .connected)
            let up = try await bench.server.bytes(2)
            #expect(up == [1, 2])
            await bench.at(.server) { $0.send([3]) }
            let down = try await bench.client.bytes(1)
            #expect(down == [3])
            let (serverLocal, clientRemote) = await (bench.at(.server) { $0.local }, bench.at(.client) { $0.remote })
            #expect(serverLocal == target && clientRemote == target)
        }
    }

    @Test func `it leaves from the address that is asked for`() async throws {
        try await withBench { bench in
            let (here, there) = (try #require(IPAddress("127.0.0.2")), try #require(IPAddress("127.0.0.3")))
            let target = try await bench.listen(Endpoint(.anyV4, 0))
            for source in [here, there, .anyV4] {
                try await bench.connect(to: Endpoint(there, target.port), from: source)
                guard case .accepted(let remote) = try await bench.server.next() else { throw Unexpected() }
                #expect(remote.address == (source.isUnspecified ? .loopbackV4 : source) && remote.port != 0)
                try await bench.server.expect(.connected)
                try await bench.client.expect(.connected)
            }
            let foreign = IPAddress("203.0.113.1")
            let error = await #expect(throws: SystemError.self) { try await bench.connect(to: target, from: foreign) }
            #expect(error == SystemError(call: "bind", code: EADDRNOTAVAIL))
        }
    }

    @Test func `a refused connection is reported`() async throws {
        try await withBench { bench in
            // No other test uses this address, so the port stays unused after the listener is closed.
            let target = try await bench.listen(Endpoint(try #require(IPAddress("127.0.0.77")), 0))
            await bench.stopListening()
            try await bench.connect(to: target)
            try await bench.client.expect(.closed(.system(SystemError(call: "connect", code: ECONNREFUSED))))
        }
    }

    @Test func `an unreachable address is reported like any failure`() async throws {
        try await withBench { bench in
            try await bench.connect(to: Endpoint(try #require(IPAddress("255.255.255.255")), 9))
            guard case .closed(.system(let error)) = try await bench.client.next() else { throw Unexpected() }
            #expect(error.call == "connect")
        }
    }

    @Test func `unused bytes come again together with the next ones`() async throws {
        try await withPair { bench in
            await bench.setAppetite(2)
            await bench.at(.client) { $0.send([1, 2, 3]) }
            try await bench.server.expect(.received([1, 2]))
            await bench.at(.client) { $0.send([4]) }
            try await bench.server.expect(.received([3, 4]))
        }
    }

    @Test func `bytes that are left at the end of a turn come again without new input`() async throws {
        try await withPair { bench in
            await bench.setAppetite(2, endsTurns: true)
            await bench.at(.client) { $0.send([1, 2, 3, 4, 5]) }
            for expected: [UInt8] in [[1, 2], [3, 4], [5]] {
                try await bench.server.expect(.received(expected))
            }
        }
    }

    @Test func `nothing is read while the output is above its mark`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 8 << 20
        limits.outputMark = 64 << 10
        try await withPair(limits: limits) { bench in
            await bench.at(.client) { $0.setReading(false) }
            let isHeldUp = await bench.at(.server) { connection in
                connection.send([UInt8](repeating: 0, count: 4 << 20))
                return connection.isHeldUp
            }
            #expect(isHeldUp)
            await bench.at(.client) { connection in
                connection.send([7])
                connection.setReading(true)
            }
            let up = try await bench.server.bytes(1)
            #expect(up == [7])
            let (stillHeld, waits) = await bench.at(.server) { ($0.isHeldUp, $0.outputCount) }
            #expect(!stillHeld)
            #expect(waits <= 16 << 10)
        }
    }

    @Test func `a finished connection sends its output, and then its end`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 8 << 20
        try await withPair(limits: limits) { bench in
            let count = 4 << 20
            await bench.at(.server) { connection in
                connection.send([UInt8](repeating: 5, count: count))
                connection.finish()
            }
            let got = try await bench.client.bytes(count)
            #expect(got.count == count)
            try await bench.client.expect(.closed(.peerClosed))
            try await bench.server.expect(.closed(.finished))
        }
    }

    @Test func `the peer's end is reported once, and our own end is not`() async throws {
        try await withPair { bench in
            await bench.at(.client) { $0.close() }
            try await bench.server.expect(.closed(.peerClosed))
            let count = await bench.listenerCount
            #expect(count == 0)
            let isOpen = await bench.at(.client) { $0.isOpen }
            #expect(!isOpen)
        }
    }

    @Test func `releasing a connection closes it`() async throws {
        try await withPair { bench in
            await bench.release(.client)
            try await bench.server.expect(.closed(.peerClosed))
        }
    }

    @Test func `a flushing close sends the output, even if the connection has no owner`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 8 << 20
        try await withPair(limits: limits) { bench in
            let count = 4 << 20
            await bench.at(.server) { connection in
                connection.send([UInt8](repeating: 5, count: count))
                connection.close(flushing: true)
            }
            await bench.release(.server)
            let got = try await bench.client.bytes(count)
            #expect(got.count == count)
            try await bench.client.expect(.closed(.peerClosed))
        }
    }

    @Test func `a peer that never reads is closed at the output limit`() async throws {
        try await withPair { bench in
            await bench.at(.client) { $0.setReading(false) }
            let block = [UInt8](repeating: 0, count: 64 << 10)
            await bench.at(.server) { connection in
                // The output must be larger than the kernel's buffers for a loopback socket.
                for _ in 0..<1000 where connection.outputCount <= 256 << 10 { connection.send(block) }
            }
            try await bench.server.expect(.closed(.outputOverflow))
        }
    }

    @Test func `output that the kernel does not accept at once arrives complete and in order`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 16 << 20
        try await withPair(limits: limits) { bench in
            await bench.at(.client) { $0.setReading(false) }
            // Blocks of output of many lengths, which together exceed the kernel's buffers for a loopback socket.
            let blocks = (1...3000).map { [UInt8](repeating: UInt8(truncatingIfNeeded: $0), count: $0) }
            let waits = await bench.at(.server) { connection in
                for block in blocks { connection.send(block) }
                return connection.outputCount
            }
            #expect(waits > 0)
            await bench.at(.client) { $0.setReading(true) }
            let all = blocks.flatMap(\.self)
            let got = try await bench.client.bytes(all.count)
            #expect(got == all)
            let rest = await bench.at(.server) { $0.outputCount }
            #expect(rest == 0)
        }
    }

    @Test func `a peer that does not read the waiting output is closed in time`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 16 << 20
        limits.outputTimeout = .milliseconds(20)
        try await withPair(limits: limits) { bench in
            await bench.at(.client) { $0.setReading(false) }
            await bench.at(.server) { $0.send([UInt8](repeating: 0, count: 8 << 20)) }
            try await bench.server.expect(.closed(.outputStalled))
        }
    }

    @Test func `a peer that has ended its side still gets the waiting output`() async throws {
        var limits = StreamConnection.Limits()
        limits.output = 16 << 20
        limits.answersAfterEnd = true
        try await withBench { bench in
            let peer = try RawPeer(connectedTo: await bench.listen(limits: limits))
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.connected)
            let count = 8 << 20
            await bench.at(.server) { $0.send([UInt8](repeating: 5, count: count)) }
            peer.endOutput()
            #expect(peer.countToEnd() == count)
            try await bench.server.expect(.closed(.peerClosed))
        }
    }

    /// A connection that is closed immediately with unread bytes is reset by the kernel.
    @Test(arguments: [false, true])
    func `the last that is sent arrives although something was not read, if we wait for the peer's end`(
        finishes: Bool
    ) async throws {
        try await withBench { bench in
            let peer = try RawPeer(connectedTo: await bench.listen())
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.connected)
            await bench.at(.server) { connection in
                connection.waitsForPeersEnd = true
                connection.setReading(false)
            }
            peer.send(100_000)
            await bench.at(.server) { connection in
                connection.send([1, 2, 3])
                if finishes { connection.finish() } else { connection.close(flushing: true) }
            }
            if finishes { try await bench.server.expect(.closed(.finished)) }
            let end = peer.readToEnd()
            #expect(end.bytes == [1, 2, 3] && end.endsWell)
            // The closing server discards the bytes that the peer sends.
            peer.send(100_000)
        }
    }

    @Test func `all bytes of a peer that has gone are read, even if a send to it fails`() async throws {
        try await withPair { bench in
            await bench.at(.server) { $0.setReading(false) }
            await bench.at(.client) { connection in
                connection.send([7])
                connection.close()
            }
            // The client needs two writes: the answer to the first write shows that the peer has gone, so the second
            // write fails.
            await bench.at(.server) { connection in
                connection.send([1])
                connection.send([2])
                connection.send([3])
                #expect(connection.isOpen)
            }
            try await bench.server.expect(
                .received([7]), .closed(.system(SystemError(call: "send", code: EPIPE))))
        }
    }

    @Test func `the output of a handler leaves together when the handler returns`() async throws {
        try await withPair { bench in
            await bench.setReply { connection in
                for _ in 0..<40_000 { connection.send([UInt8(truncatingIfNeeded: connection.outputCount)]) }
            }
            await bench.at(.client) { $0.send([7]) }
            // The connection writes its output in blocks of 16 KiB, so `outputCount` starts again from 0 after each
            // block.
            let got = try await bench.client.bytes(40_000)
            #expect(got == (0..<40_000).map { UInt8(truncatingIfNeeded: $0 % (16 << 10)) })
        }
    }

    @Test func `a handler that sends and closes is flushed, and one that only closes is not`() async throws {
        for isFlushing in [true, false] {
            try await withPair { bench in
                await bench.setReply { connection in
                    connection.send([1])
                    connection.send([2])
                    connection.close(flushing: isFlushing)
                }
                await bench.at(.client) { $0.send([7]) }
                _ = try await bench.server.bytes(1)
                if isFlushing { try await bench.client.expect(.received([1, 2])) }
                try await bench.client.expect(.closed(.peerClosed))
            }
        }
    }

    @Test func `a flushing close loses no bytes that the kernel has accepted`() async throws {
        try await withPair { bench in
            await bench.at(.server) { connection in
                connection.send([1, 2, 3])
                connection.close(flushing: true)
            }
            try await bench.client.expect(.received([1, 2, 3]), .closed(.peerClosed))
        }
    }

    @Test func `input that the handler cannot use is closed at its limit`() async throws {
        var limits = StreamConnection.Limits()
        limits.input = 1000
        try await withPair(limits: limits) { bench in
            await bench.setAppetite(0)
            await bench.at(.client) { $0.send([UInt8](repeating: 0, count: 999)) }
            try await bench.server.expect(.received([]))
            await bench.at(.client) { $0.send([0]) }
            try await bench.server.expect(.received([]), .closed(.inputOverflow))
        }
    }

    @Test func `an idle connection is closed`() async throws {
        try await withPair { bench in
            await bench.at(.server) { $0.setIdleTimeout(.milliseconds(20)) }
            try await bench.server.expect(.closed(.idle))
        }
    }

    @Test func `a connection that is accepted and dropped is closed`() async throws {
        try await withBench { bench in
            let other = Bench(bench.loop)
            let (listener, target) = try await other.run { bench in
                let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop, limit: 5) { _ in }
                return (listener, listener.local)
            }
            try await bench.connect(to: target)
            try await bench.client.expect(.connected, .closed(.peerClosed))
            let count = await other.run { _ in listener.connectionCount }
            #expect(count == 0)
        }
    }

    @Test func `a listener at its limit continues when a connection has ended`() async throws {
        try await withBench { bench in
            let target = try await bench.listen(limit: 1)
            try await bench.connect(to: target)
            try await bench.connect(to: target)
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            try await bench.server.expect(.connected)
            let count = await bench.listenerCount
            #expect(count == 1)
            await bench.at(.server) { $0.close() }
            guard case .accepted = try await bench.server.next() else { throw Unexpected() }
            let ids = await (bench.at(.server, 0) { $0.id }, bench.at(.server, 1) { $0.id })
            #expect(ids.0 != ids.1)
        }
    }

    @Test func `a Unix-domain socket serves its user only and leaves no file`() async throws {
        try await withBench { bench in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let path = folder.file("socket")
            #expect(try !UnixSocket.isListening(at: path))
            try await bench.listen(unixPath: path)
            var status = stat()
            #expect(unsafe lstat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            #expect(try UnixSocket.isListening(at: path))
            try await bench.server.expect(.accepted(remote: Endpoint(.anyV4, 0)))
            // A second listener must not take over the path of a running listener.
            await #expect { try await bench.listen(unixPath: path) } throws: {
                ($0 as? SystemError)?.isAddressInUse == true
            }
            #expect(try UnixSocket.isListening(at: path))
            await bench.stopListening()
            #expect(unsafe lstat(path, &status) != 0)
            #expect(try !UnixSocket.isListening(at: path))
        }
    }
}
