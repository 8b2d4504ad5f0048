import Addressing
import Foundation
import LoopTesting
import ProxyDaemon
import PushDelivery
import PushSandbox
import Reactor
import Telemetry
import TestSupport
import Testing

/// A phone and a caller on one UDP socket, and a simulated push mediator that wakes the phone.
actor Outside {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let messages = Mailbox<String>()
    private var socket: UDPSocket?
    private var server: SandboxServer?
    private var semantics: ProviderSemantics?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Opens the socket and the mediator.
    ///
    /// - Returns: the URL of the mediator.
    func open() throws -> String {
        let semantics = ProviderSemantics { 0 }
        let server = SandboxServer(loop: loop, semantics: semantics)
        let endpoint = try server.listen(plain: Endpoint(.loopbackV4, 0))
        let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
        let messages = messages
        try socket.receive { batch in
            for index in 0..<batch.count {
                messages.put(
                    batch.withBytes(at: index) { bytes in
                        unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
                    })
            }
        }
        (self.socket, self.server, self.semantics) = (socket, server, semantics)
        return "http://\(endpoint)"
    }

    var local: Endpoint { socket?.local ?? Endpoint(.loopbackV4, 0) }
    var pushes: [PushRecord] { semantics?.records ?? [] }

    func send(_ bytes: [UInt8], to target: Endpoint) { socket?.queue(bytes, to: target) }

    /// Returns the next message that begins with `start`, and skips all others.
    nonisolated func message(_ start: String, of callID: String = "") async throws -> String {
        while true {
            let message = try await messages.next()
            if message.hasPrefix(start), message.contains("Call-ID: \(callID)") { return message }
        }
    }

    func close() {
        socket?.close()
        (socket, server, semantics) = (nil, nil, nil)
    }
}

extension RunningDaemonSuites {
    @Suite("Calls to reported devices", .timeLimit(.minutes(10)))
    struct ReportedDeviceCallTests {
        private func withOutside(_ body: (RunningDaemon, Outside) async throws -> Void) async throws {
            try await withLoop { loop in
                let outside = Outside(loop)
                let url = try await outside.open()
                let result: Result<Void, any Error>
                do {
                    try await RunningDaemon.with({ $0.push.acrobits.endpoint = url }) { try await body($0, outside) }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await outside.close()
                try result.get()
            }
        }

        private func report(_ daemon: RunningDaemon, token: String = "Q2Fs", more: String = "") async throws {
            try await daemon.expect(
                200, post: "/v1/push-tokens",
                #"{"username":"100","password":"se cret+1","selector":"S:1","token_calls":"\#(token)","appId_calls":"a"\#(more)}"#,
                type: "application/json")
        }

        /// Waits until the mediator has received `count` pushes. If the event does not come, the time limit of the test
        /// ends the waiting.
        private func pushes(_ outside: Outside, _ count: Int) async throws -> [PushRecord] {
            var pushes: [PushRecord] = []
            while pushes.count < count {
                try Task.checkCancellation()
                await Task.yield()
                pushes = await outside.pushes
            }
            return pushes
        }

        private func invite(_ daemon: RunningDaemon, _ outside: Outside, _ number: Int) async {
            let local = await outside.local
            await outside.send(
                SIPText.invite(to: "100", from: "103", at: local, callID: "call\(number)", branch: "i\(number)"),
                to: daemon.sip)
        }

        @Test func `a push wakes the phone, and the call reaches it when it registers without a token`() async throws {
            try await withOutside { daemon, outside in
                try await report(daemon)
                await invite(daemon, outside, 1)
                _ = try await outside.message("SIP/2.0 100")
                // The test does not wait for the push, because the phone may register even before it.
                let local = await outside.local
                await outside.send(
                    SIPText.register(
                        user: "100", from: local, callID: "r1", cseq: 1, branch: "r1", contact: "<sip:100@\(local)>"),
                    to: daemon.sip)
                let call = try await outside.message("INVITE sip:100@")
                #expect(call.contains("Call-ID: call1\r\n"))
            }
        }

        @Test func `the mediator gets the token, the app, the account and the call`() async throws {
            try await withOutside { daemon, outside in
                try await report(daemon)
                await invite(daemon, outside, 1)
                let push = try #require(try await pushes(outside, 1).first)
                #expect(push.type == "NotifyIncomingCall")
                #expect(push.token == "Q2Fs")
                #expect(push.isAccepted)
                for part in [#""AppId":"a""#, #""Selector":"S:1""#, #""Id":"call1""#] {
                    #expect(push.body.contains(part))
                }
            }
        }

        @Test func `a phone that was woken gets a push on its other token when the caller has cancelled`() async throws
        {
            try await withOutside { daemon, outside in
                try await report(daemon, more: #","token_msgs":"T3Ro","appId_msgs":"b""#)
                await invite(daemon, outside, 1)
                _ = try await pushes(outside, 1)
                // The caller cancels only when the daemon knows that the provider accepted the push.
                while !daemon.log.lines.contains(where: { $0.contains("a provider accepted a push") }) {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                _ = await daemon.bindingCount()
                let local = await outside.local
                await outside.send(
                    SIPText.bytes([
                        "CANCEL sip:100@example.net SIP/2.0", "Via: SIP/2.0/UDP \(local);rport;branch=z9hG4bKi1",
                        "From: \"Caller 103\" <sip:103@example.net>;tag=fcall1", "To: <sip:100@example.net>",
                        "Call-ID: call1", "CSeq: 1 CANCEL", "Max-Forwards: 70",
                    ]), to: daemon.sip)
                let push = try await pushes(outside, 2)[1]
                #expect(push.type == "NotifyIncomingCallMissed" && push.token == "T3Ro" && push.isAccepted)
                #expect(
                    push.body.contains(
                        #"{"verb":"NotifyIncomingCallMissed","AppId":"b","DeviceToken":"T3Ro","Selector":"S:1","Id":"call1"}"#
                    ))
            }
        }

        @Test func `a token that the mediator does not know is dropped, and others are kept`() async throws {
            try await withOutside { daemon, outside in
                // The mediator answers the push with 404 if the token is `fail-404`. The call ends immediately, or
                // after all attempts have failed.
                for (number, code, kept) in [(1, 404, 0), (2, 400, 1)] {
                    try await report(daemon, token: "fail-\(code)")
                    await invite(daemon, outside, number)
                    let end = try await outside.message("SIP/2.0 4", of: "call\(number)")
                    #expect(end.hasPrefix("SIP/2.0 480"))
                    let stored = await daemon.devices("100")
                    #expect(stored.count == kept, "\(code)")
                }
            }
        }

        @Test func `a removal ends the waiting call, and the next one finds no device`() async throws {
            try await withOutside { daemon, outside in
                try await report(daemon)
                await invite(daemon, outside, 1)
                _ = try await outside.message("SIP/2.0 100")
                try await daemon.expect(
                    200, post: "/v1/account-removals", "username=100&password=se+cret%2B1&selector=S:1")
                let first = try await outside.message("SIP/2.0 4")
                #expect(first.hasPrefix("SIP/2.0 480") && first.contains("Call-ID: call1\r\n"))
                await invite(daemon, outside, 2)
                // The test waits for the second Call-ID, because the answer to the first call may be repeated in the
                // meantime.
                let second = try await outside.message("SIP/2.0 4", of: "call2")
                #expect(second.hasPrefix("SIP/2.0 480"))
            }
        }
    }
}
