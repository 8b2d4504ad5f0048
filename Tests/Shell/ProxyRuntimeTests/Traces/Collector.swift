import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import Reactor
import Routing
import Telemetry
import TestSupport
import Timekeeping

@testable import ProxyRuntime

/// A HEP collector on loopback that a test controls.
actor Collector {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let packets = Mailbox<HEPDecoder>()
    nonisolated let connections = Mailbox<Bool>()
    private var socket: UDPSocket?
    private var listener: StreamListener?
    private var streams: [StreamConnection] = []
    private var reads = true

    init(_ loop: EventLoop) { self.loop = loop }

    func listen(_ link: HEPCollector.Link, tls: TLSContext? = nil) throws -> HEPCollector {
        let local: Endpoint
        if link == .udp {
            let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
            let packets = packets
            try socket.receive { batch in
                for index in 0..<batch.count {
                    let bytes = batch.withBytes(at: index) { bytes in bytes.indices.map { bytes[$0] } }
                    if let packet = HEPDecoder(bytes) { packets.put(packet) }
                }
            }
            self.socket = socket
            local = socket.local
        } else {
            let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: tls, limit: 10) {
                [weak self] stream in self?.assumeIsolated { $0.accepted(stream) }
            }
            self.listener = listener
            local = listener.local
        }
        return HEPCollector(link: link, host: "127.0.0.1", port: local.port)
    }

    func stopReading() { reads = false }

    private func accepted(_ stream: StreamConnection) {
        streams.append(stream)
        let (packets, connections) = (packets, connections)
        try? stream.start(
            StreamConnection.Handlers(
                connected: { [weak self] stream in
                    if self?.assumeIsolated({ $0.reads }) == false { stream.setReading(false) }
                    connections.put(true)
                },
                received: { _, bytes in
                    var used = 0
                    while used + 6 <= bytes.count {
                        let length = Int(bytes[used + 4]) << 8 | Int(bytes[used + 5])
                        guard length >= 6, used + length <= bytes.count else { break }
                        if let packet = HEPDecoder((used..<used + length).map { bytes[$0] }) { packets.put(packet) }
                        used += length
                    }
                    return used
                }, closed: { _, _ in connections.put(false) }))
    }

    func send(_ bytes: [UInt8]) { for stream in streams { stream.send(bytes) } }

    /// Closes the connections, and stops listening.
    func close() {
        socket?.close()
        socket = nil
        listener = nil
        for stream in streams { stream.close() }
        streams = []
    }
}

extension ShardScene {
    /// Makes the shard copy messages to a collector while the body runs.
    func withMirror(
        _ settings: HEPSettings, log: MemoryLogSink = MemoryLogSink(), _ body: (Mirrored) async throws -> Void
    ) async throws {
        let (shard, loop) = (shard, await bench.loop)
        let (udp, tcp) = (udp, tcp)
        let mirrored = try await bench.run { _ in
            let taps = MessageTaps(listeners: [
                .init(number: 0, transport: .udp, bound: udp, sentBy: .empty),
                .init(number: 1, transport: .tcp, bound: tcp, sentBy: .empty),
            ])
            let log = Log(level: .notice, sink: log) { UnixTime(seconds: 0) }
            taps.replaceMirror(by: try HEPMirror(settings, on: loop, log: log))
            shard.assumeIsolated { $0.copies(to: taps) }
            return Mirrored(taps: taps)
        }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(mirrored))
        } catch {
            result = .failure(error)
        }
        await bench.run { _ in
            shard.assumeIsolated { $0.copies(to: nil) }
            mirrored.taps.replaceMirror(by: nil)
        }
        try result.get()
    }

    struct Mirrored: Sendable {
        let taps: MessageTaps
    }

    func figure(_ counter: Counter, _ mirrored: Mirrored) async -> UInt64 {
        await bench.run { _ in mirrored.taps.figures[counter] }
    }
}
