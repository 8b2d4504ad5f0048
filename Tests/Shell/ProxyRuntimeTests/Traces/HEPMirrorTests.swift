import Addressing
import Bytes
import Crypto
import Foundation
import HEP
import LoopTesting
import ProxyCore
import Reactor
import Settings
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import ProxyRuntime

@Suite("Copies for a HEP collector", .timeLimit(.minutes(10)))
struct HEPMirrorTests {
    private func settings(_ collector: HEPCollector) -> HEPSettings {
        var settings = HEPSettings()
        settings.collector = collector
        settings.node = "node1"
        return settings
    }

    /// Waits for the next copy whose text begins with `start`.
    private func copy(_ start: String, _ collector: Collector) async throws -> HEPDecoder {
        while true {
            let packet = try await collector.packets.next()
            if packet.text(0x0f)?.hasPrefix(start) == true { return packet }
        }
    }

    // MARK: What is copied

    @Test func `a request and its response are copied with addresses, time, node and number`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            var settings = settings(try await collector.listen(.udp))
            settings.id = 77
            try await scene.withMirror(settings) { mirrored in
                let phone = try await scene.places.udp("phone")
                await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                let response = try await scene.places.message("SIP/2.0 200", at: "phone")
                let (asked, answered) = (
                    try await copy("OPTIONS", collector), try await copy("SIP/2.0", collector)
                )
                #expect(asked.bytes(0x0f) == scene.options(1))
                #expect(answered.text(0x0f) == response)
                for packet in [asked, answered] {
                    #expect(packet.number(0x01) == 2)
                    #expect(packet.number(0x02) == 17)
                    #expect(packet.number(0x0b) == 1)
                    #expect(packet.number(0x0c) == 77)
                    #expect(packet.text(0x13) == "node1")
                    #expect(packet.payloadForSngrep(hasPassword: false) == packet.bytes(0x0f))
                }
                #expect(asked.bytes(0x03) == [127, 0, 0, 1])
                #expect(asked.number(0x07) == Int(phone.port))
                #expect(asked.number(0x08) == Int(scene.udp.port))
                #expect(answered.number(0x07) == Int(scene.udp.port))
                #expect(answered.number(0x08) == Int(phone.port))
                let times = [asked, answered].map { ($0.number(0x09) ?? 0) * 1_000_000 + ($0.number(0x0a) ?? 0) }
                #expect(times[0] > 1_700_000_000_000_000 && times[0] <= times[1])
                #expect(await scene.figure(.hepDropped, mirrored) == 0)
            }
            await collector.close()
        }
    }

    @Test func `messages on connections are copied, and keep-alives, STUN and the self test are not`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            try await scene.withMirror(settings(try await collector.listen(.udp))) { _ in
                let shard = scene.shard
                #expect(await scene.bench.run { _ in shard.assumeIsolated { $0.answersItself() } })
                _ = try await scene.places.udp("phone")
                await scene.places.send(Array("\r\n\r\n".utf8), from: "phone", to: scene.udp)
                let binding: [UInt8] =
                    [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42] + [UInt8](repeating: 7, count: 12)
                await scene.places.send(binding, from: "phone", to: scene.udp)
                let client = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
                await client.send("\r\n\r\n" + String(decoding: scene.options(2), as: UTF8.self))
                _ = try await client.text { $0.contains("SIP/2.0 200") }
                // The collector's first packets are copies of the request and the response on the connection.
                let asked = try await collector.packets.next()
                #expect(asked.bytes(0x0f) == scene.options(2))
                #expect(asked.number(0x02) == 6)
                #expect(asked.number(0x08) == Int(scene.tcp.port))
                let answered = try await collector.packets.next()
                #expect(answered.text(0x0f)?.hasPrefix("SIP/2.0 200") == true)
                #expect(answered.number(0x07) == Int(scene.tcp.port))
                #expect(answered.number(0x08) == asked.number(0x07))
                await client.close()
            }
            await collector.close()
        }
    }

    @Test func `a refused message and a message that cannot be read are copied without their secrets`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            try await scene.withMirror(settings(try await collector.listen(.udp))) { _ in
                _ = try await scene.places.udp("phone")
                let broken = """
                    REGISTER sip:example.net SIP/2.0\r
                    Via: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bKx\r
                    From: <sip:bob@example.net>;tag=1\r
                    To: <sip:bob@example.net>\r
                    Call-ID: broken\r
                    CSeq: x REGISTER\r
                    Authorization: Digest response="S3CR3T"\r
                    Contact: <sip:bob@h;pn-provider=fcm;pn-prid=S3CR3T;pn-param=S3CR3T>\r
                    Content-Length: 6\r
                    \r
                    S3CR3T
                    """
                await scene.places.send(Array(broken.utf8), from: "phone", to: scene.udp)
                let asked = try await copy("REGISTER", collector)
                #expect(asked.text(0x0f)?.contains("S3CR3T") == false)
                #expect(asked.bytes(0x0f)?.count == broken.utf8.count)
                _ = try await copy("SIP/2.0 400", collector)
            }
            await collector.close()
        }
    }

    @Test func `a REGISTER that is refused unread during overload is copied, and so is its 503`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            let shard = scene.shard
            try await scene.withMirror(settings(try await collector.listen(.udp))) { _ in
                _ = try await scene.places.udp("phone")
                await scene.bench.run { _ in
                    shard.assumeIsolated { shard in
                        let now = SystemClock.now
                        for step in 0..<100 {
                            shard.engine.looked(after: .seconds(1), now: now + .milliseconds(10 * step - 1000))
                        }
                    }
                }
                await scene.register("phone")
                let response = try await scene.places.message("SIP/2.0 503", at: "phone")
                let (asked, answered) = (
                    try await copy("REGISTER", collector), try await copy("SIP/2.0 503", collector)
                )
                #expect(asked.text(0x0f)?.contains("Call-ID: r1") == true)
                #expect(answered.text(0x0f) == response)
            }
            await collector.close()
        }
    }

    @Test func `only the calls and registrations of selected users are copied, and each call completely`() async throws
    {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            var settings = settings(try await collector.listen(.udp))
            settings.users = ["bob@example.net"]
            settings.registrations = false
            try await scene.withMirror(settings) { _ in
                let phone = try await scene.places.udp("phone")
                await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                await scene.register("phone")
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                await scene.bench.run { _ in scene.lookUps.known = [] }
                await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
                let first = try await collector.packets.next()
                #expect(first.text(0x0f)?.hasPrefix("INVITE sip:103") == true)
                #expect(try await collector.packets.next().text(0x0f)?.contains("Call-ID: i1") == true)
            }
            await collector.close()
        }
    }

    @Test func `a sample has a Call-ID completely or not at all`() throws {
        var selection = TraceSelection(users: [], sample: 30)
        var chosen = 0
        for number in 0..<1000 {
            let texts = ["INVITE sip:b@h", "SIP/2.0 180 Ringing", "BYE sip:b@h"].map { line in
                Array("\(line.hasPrefix("SIP") ? line : line + " SIP/2.0")\r\nCall-ID: c\(number)@pbx\r\n\r\n".utf8)
            }
            var results: Set<Bool> = []
            for bytes in texts {
                let read = SIPOutline(bytes.span)
                let outline = try #require(read)
                results.insert(selection.wants(bytes.span, outline))
            }
            results.insert(selection.wants(callID: ByteString("c\(number)@pbx")))
            #expect(results.count == 1)
            chosen += results.contains(true) ? 1 : 0
        }
        #expect((200...400).contains(chosen), "\(chosen)")
    }

    // MARK: The link

    @Test(arguments: [HEPCollector.Link.tcp, .tls])
    func `packets arrive over TCP and TLS, with the collector's key`(link: HEPCollector.Link) async throws {
        try await ShardScene.with { scene in
            let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            let collector = Collector(await scene.bench.loop)
            let tls =
                link == .tls
                ? try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key)) : nil
            var settings = settings(try await collector.listen(link, tls: tls))
            settings.passwordFile = scene.folder.folder + "/key"
            try Data("open sesame\n".utf8).write(to: URL(fileURLWithPath: scene.folder.folder + "/key"))
            if link == .tls {
                settings.caFile = scene.folder.folder + "/ca.pem"
                try Data(identity.certificate).write(to: URL(fileURLWithPath: scene.folder.folder + "/ca.pem"))
            }
            try await scene.withMirror(settings) { mirrored in
                #expect(try await collector.connections.next())
                _ = try await scene.places.udp("phone")
                // The mirror drops the first packets if the daemon's side of the connection is not open yet.
                try await scene.wait {
                    await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                    _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                    return await scene.figure(.hepSent, mirrored) >= 2
                }
                let packet = try await copy("OPTIONS", collector)
                #expect(packet.text(0x0e) == "open sesame")
                #expect(packet.payloadForSngrep(hasPassword: true) == scene.options(1))
            }
            await collector.close()
        }
    }

    @Test func `a collector with another certificate gets nothing`() async throws {
        try await ShardScene.with { scene in
            let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            let collector = Collector(await scene.bench.loop)
            let tls = try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key))
            let log = MemoryLogSink()
            try await scene.withMirror(settings(try await collector.listen(.tls, tls: tls)), log: log) { mirrored in
                try await scene.wait { log.lines.contains { $0.contains("HEP packets do not reach the collector") } }
                _ = try await scene.places.udp("phone")
                await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                #expect(await scene.figure(.hepDropped, mirrored) == 2)
                #expect(await scene.figure(.hepSent, mirrored) == 0)
            }
            await collector.close()
        }
    }

    @Test(arguments: [HEPCollector.Link.udp, .tcp])
    func `a collector that is away costs one log line, and no call waits for it`(link: HEPCollector.Link) async throws {
        try await ShardScene.with { scene in
            // Nobody listens on the port, because the test has reserved the port.
            let port = try await scene.places.freePort()
            let log = MemoryLogSink()
            try await scene.withMirror(
                settings(HEPCollector(link: link, host: "127.0.0.1", port: port.port)), log: log
            ) { mirrored in
                _ = try await scene.places.udp("phone")
                var number = 0
                try await scene.wait {
                    number += 1
                    await scene.places.send(scene.options(number), from: "phone", to: scene.udp)
                    _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                    return await scene.figure(.hepDropped, mirrored) >= 20
                }
                let lines = log.lines.filter { $0.contains("HEP packets do not reach the collector") }
                #expect(lines.count == 1, "\(log.lines)")
                #expect(lines.first?.contains("setting=hep.collector") == true)
            }
        }
    }

    @Test func `a collector that does not read costs bounded memory, and its packets are counted`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            await collector.stopReading()
            let log = MemoryLogSink()
            let settings = settings(try await collector.listen(.tcp))
            try await scene.withMirror(settings, log: log) { mirrored in
                #expect(try await collector.connections.next())
                let flow = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(.loopbackV4, 9))
                let text =
                    "MESSAGE sip:bob@example.net SIP/2.0\r\nCall-ID: 1\r\n\r\n" + String(repeating: "a", count: 60_000)
                try await scene.wait {
                    await scene.bench.run { _ in
                        mirrored.taps.message(Array(text.utf8).span, isIncoming: true, on: flow)
                    }
                    return await scene.figure(.hepDropped, mirrored) >= 50
                        && log.lines.contains { $0.contains("too slowly") }
                }
                #expect(log.lines.filter { $0.contains("too slowly") }.count == 1)
                let waiting = await scene.bench.run { _ in mirrored.taps.mirror?.waitingBytes ?? 0 }
                #expect((1...HEPSender.outputLimit).contains(waiting), "\(waiting)")
                _ = try await scene.places.udp("phone")
                await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
            }
            await collector.close()
        }
    }

    @Test func `a collector that floods back loses the connection`() async throws {
        try await ShardScene.with { scene in
            let collector = Collector(await scene.bench.loop)
            let log = MemoryLogSink()
            try await scene.withMirror(settings(try await collector.listen(.tcp)), log: log) { _ in
                #expect(try await collector.connections.next())
                await collector.send([UInt8](repeating: 7, count: 200_000))
                #expect(try await collector.connections.next() == false)
                #expect(log.lines.contains { $0.contains("HEP has no answers") }, "\(log.lines)")
                _ = try await scene.places.udp("phone")
                await scene.places.send(scene.options(1), from: "phone", to: scene.udp)
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
            }
            await collector.close()
        }
    }

    // MARK: Settings

    @Test(arguments: [
        ("udp:192.0.2.1:9060", "udp:192.0.2.1:9060"), ("tls:[2001:db8::1]:9061", "tls:[2001:db8::1]:9061"),
        ("TCP:homer.example.net:9060", "tcp:homer.example.net:9060"),
    ])
    func `addresses of collectors are read`(text: String, printed: String) throws {
        var settings = HEPSettings()
        settings = try HEPSettings(yaml: Array("collector: \"\(text)\"\n".utf8), file: "test")
        #expect(settings.collector?.description == printed)
    }

    @Test(arguments: ["", "udp:9060", "sctp:h:1", "udp::9060", "udp:h:0", "udp:h:99999", "tcp:2001:db8::1:9060", "h:1"])
    func `wrong addresses of collectors are refused`(text: String) {
        #expect(throws: (any Error).self) {
            try HEPSettings(yaml: Array("collector: \"\(text)\"\n".utf8), file: "test")
        }
    }
}
