import ProxyPolicy
import Addressing
import Foundation
import LoopTesting
import ProxyCore
import Reactor
import Telemetry
import Testing
import Timekeeping

@testable import ProxyDaemon

@Suite("Limits of connections", .timeLimit(.minutes(10)))
struct ConnectionLimitTests {
    private func withDaemon(
        _ change: (inout DaemonSettings) -> Void = { _ in },
        _ body: (RunningDaemon, EventLoop) async throws -> Void
    ) async throws {
        try await RunningDaemon.with { settings in
            settings.listen = [ListenAddress(transport: .tcp, endpoint: Endpoint(.loopbackV4, 0))]
            change(&settings)
        } _: { daemon in
            try await withLoop { loop in try await body(daemon, loop) }
        }
    }

    private func options(_ number: Int = 1) -> String {
        "OPTIONS sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bKo\(number)\r\n"
            + "From: <sip:a@example.net>;tag=1\r\nTo: <sip:example.net>\r\nCall-ID: o\(number)\r\n"
            + "CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    }

    private let register =
        "REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bKr\r\n"
        + "From: <sip:100@example.net>;tag=1\r\nTo: <sip:100@example.net>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n"
        + "Contact: <sip:100@127.0.0.1:9;transport=tcp>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"

    private func answers(_ text: String) -> Int { text.components(separatedBy: "SIP/2.0 200 ").count - 1 }

    private func figures(_ daemon: RunningDaemon) async -> CounterSet {
        await daemon.streamFigures
    }

    @Test(arguments: ["\r\n\r\n", "\r\n", "OPTIONS sip:", "SIP/2.0 200 OK\r\n\r\n"])
    func `a connection without a whole request ends in time, even if bytes keep coming`(drip: String) async throws {
        try await withDaemon {
            $0.limits.firstRequest = .milliseconds(300)
        } _: { daemon, loop in
            let client = try await TCPClient.connected(to: daemon.sip, on: loop)
            try await client.keepSending(drip, every: .milliseconds(20))
            try await client.end()
            #expect(await figures(daemon)[.flowClosed] == 1)
            await client.close()
        }
    }

    @Test func `a connection without a password ends if passwords are required`() async throws {
        try await withDaemon { settings in
            settings.auth = .digest
            settings.limits.authentication = .milliseconds(300)
        } _: { daemon, loop in
            let client = try await TCPClient.connected(to: daemon.sip, on: loop)
            await client.send(options())
            let text = try await client.text { answers($0) == 1 }
            #expect(answers(text) == 1)
            try await client.keepSending(register, every: .milliseconds(50))
            try await client.end()
            #expect(await figures(daemon)[.flowNotProved] == 1)
            await client.close()
        }
    }

    @Test func `one source has so many unproved connections, and registered ones do not count`() async throws {
        try await withDaemon {
            $0.limits.connectionsPerSource = 1
        } _: { daemon, loop in
            let first = try await TCPClient.connected(to: daemon.sip, on: loop)
            #expect(try await first.events.next() == .connected)
            await first.send(options())
            _ = try await first.text { answers($0) == 1 }
            let second = try await TCPClient.connected(to: daemon.sip, on: loop)
            try await second.end()
            #expect(await figures(daemon)[.flowRefusedSource] == 1)
            await first.send(register)
            _ = try await first.text { answers($0) == 1 }
            let third = try await TCPClient.connected(to: daemon.sip, on: loop)
            await third.send(options(2))
            #expect(answers(try await third.text { answers($0) == 1 }) == 1)
            for client in [first, second, third] { await client.close() }
        }
    }

    @Test func `in a full table the oldest connection without a password is closed`() async throws {
        try await withDaemon {
            $0.limits.connections = 2
        } _: { daemon, loop in
            let registered = try await TCPClient.connected(to: daemon.sip, on: loop)
            await registered.send(register)
            _ = try await registered.text { answers($0) == 1 }
            let idle = try await TCPClient.connected(to: daemon.sip, on: loop)
            await idle.send(options(1))
            _ = try await idle.text { answers($0) == 1 }
            let new = try await TCPClient.connected(to: daemon.sip, on: loop)
            await new.send(options(2))
            #expect(answers(try await new.text { answers($0) == 1 }) == 1)
            try await idle.end()
            #expect(await figures(daemon)[.flowGaveWay] == 1)
            await registered.send(options(3))
            #expect(answers(try await registered.text { answers($0) == 1 }) == 1)
            for client in [registered, idle, new] { await client.close() }
        }
    }

    @Test(arguments: [true, false])
    func `two thousand requests at once are all answered, though the answers are read at the end`(
        isTrusted: Bool
    ) async throws {
        try await withDaemon { settings in
            if isTrusted, let peer = TrustedPeer("127.0.0.1") { settings.trusted = [peer] }
        } _: { daemon, loop in
            let client = try await TCPClient.connected(to: daemon.sip, on: loop)
            #expect(try await client.events.next() == .connected)
            await client.setReading(false)
            await client.send((1...2000).map { options($0) }.joined())
            // While one peer is blocked, the daemon serves another peer.
            let other = try await TCPClient.connected(to: daemon.sip, on: loop)
            await other.send(options(9999))
            #expect(answers(try await other.text { answers($0) == 1 }) == 1)
            await client.setReading(true)
            var count = 0
            var rest = ""
            while count < 2000 {
                guard case .received(let part) = try await client.events.next() else { break }
                rest += part
                let whole = rest.components(separatedBy: "SIP/2.0 200 ")
                count += whole.count - 1
                rest = String(rest.suffix(11))
            }
            #expect(count == 2000)
            for client in [client, other] { await client.close() }
        }
    }

    @Test func `a peer that does not read loses its connection`() async throws {
        try await withDaemon {
            $0.limits.outputTimeout = .milliseconds(300)
        } _: { daemon, loop in
            let client = try await TCPClient.connected(to: daemon.sip, on: loop)
            #expect(try await client.events.next() == .connected)
            await client.setReading(false)
            await client.send(String(repeating: options(), count: 100_000))
            try await client.end()
            #expect(await figures(daemon)[.flowNotReading] == 1)
            await client.close()
        }
    }

    @Test func `a length that lies is answered and ends the connection`() async throws {
        try await withDaemon { daemon, loop in
            let client = try await TCPClient.connected(to: daemon.sip, on: loop)
            await client.send(
                options().replacingOccurrences(of: "Content-Length: 0", with: "Content-Length: -1") + options(2))
            let text = try await client.text { _ in false }
            #expect(text.hasPrefix("SIP/2.0 400 "))
            #expect(answers(text) == 0)
            await client.close()
        }
    }
}
