import ProxyPolicy
import Routing
import Addressing
import Bytes
import Crypto
import Foundation
import HTTPClient
import JSON
import LoopTesting
import Persistence
import ProviderTesting
import ProxyCore
import PushDelivery
import PushSending
import Reactor
import Registration
import SIPGrammar
import SIPMessage
import StoreTesting
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import Control
@testable import HTTPServices
@testable import ProxyRuntime

/// A complete daemon without SIP listeners, with a provider and a client of the control socket.
private struct Station {
    let kept: Kept
    let session: HTTPSession
    let socket: String
    let provider: FakeProvider

    /// The parts of a daemon that must stay alive during the test. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses it.
    struct Kept: @unchecked Sendable {
        let door: ShardDoor
        let store: DatabaseStore
        let push: PushService
        let control: ControlService
        let taps: MessageTaps
    }

    static let pbx = Endpoint(.loopbackV4, 5070)
    static let phone = Endpoint(.loopbackV4, 40_000)

    /// Passes the bytes to the engine as a request from `source`.
    func receive(_ bytes: [UInt8], from source: Endpoint) async {
        await kept.door.ask(.everything) { engine, now in
            let flow = Flow(transport: .udp, listener: 0, connection: 0, remote: source)
            if case .request(let request) = MessageReader().read(bytes.span, isStream: false) {
                engine.requestReceived(request, on: flow, now: now)
            }
        }
    }

    func get(_ target: String) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: "http://localhost\(target)")
        request.route.unixSocketPath = socket
        request.route.version = .http1
        return try await session.response(to: request)
    }

    func explain(_ name: String, _ query: String = "") async throws -> ExplainReport {
        let response = try await get("/v1/explain\(name.isEmpty ? "" : "/")\(name)\(query)")
        #expect(response.status == 200)
        return try JSONDecoder().decode(ExplainReport.self, from: Data(response.body))
    }

    /// Waits until the condition is true for the engine.
    func waitUntil(_ isSo: @Sendable (ProxyEngine) -> Bool) async {
        while await !kept.door.ask(.everything, { engine, _ in isSo(engine) }) { await Task.yield() }
    }
}

private func withStation(_ body: (Station) async throws -> Void) async throws {
    let folder = try StoreFolder()
    try await withLoop { loop in
        let provider = FakeProvider(loop) { _, _ in
            .answer(200, #"{"results":[{"message_id":"m1"}]}"#)
        }
        let url = try await provider.listen()
        let socket = folder.folder + "/control"
        let (kept, session) = try await Bench(loop).run { bench in
            let kept = try makeStation(on: bench.loop, folder.path, provider: url, socket: socket)
            return (kept, HTTPSession(on: bench.loop))
        }
        try await body(Station(kept: kept, session: session, socket: socket, provider: provider))
        await Bench(loop).run { _ in
            session.close()
            kept.push.close()
            kept.store.close()
        }
        await provider.close()
    }
}

private func makeStation(
    on loop: EventLoop, _ path: String, provider: String, socket: String
) throws -> Station.Kept {
    var settings = PushSettings()
    settings.fcm.enabled = true
    settings.fcm.bodyFormat = .legacy
    settings.fcm.endpoint = provider
    let store = try DatabaseStore(path: path, loop: loop, log: .silent)
    let push = try PushService(loop: loop, settings: settings, log: .silent)
    var engineSettings = ProxySettings()
    engineSettings.domains = [ByteString("example.net")]
    engineSettings.trusted = [TrustedPeer("127.0.0.1:5070")].compactMap(\.self)
    engineSettings.authenticates = false
    engineSettings.configuredProviders = [.fcm]
    engineSettings.dispatch = push.setup
    let listener = Listener(
        number: 0, transport: .udp, bound: Endpoint(.loopbackV4, 5060), sentBy: ByteString("127.0.0.1:5060"))
    let sealer = TextSealer()
    try sealer.use([UInt8](repeating: 7, count: 32), number: 1)
    let engine = ProxyEngine(
        settings: engineSettings, identity: LocalIdentity(listeners: [listener], domains: engineSettings.domains),
        functions: try EngineFunctions.make(seal: sealer, log: .silent), startedAt: loop.moment.date)
    let shard = ProxyShard(
        loop: loop, engine: engine, streams: try StreamFlows(loop: loop, log: .silent),
        services: ShardServices(store: store, push: push, resolve: { _, _ in }), log: .silent)
    store.finished = { results in shard.assumeIsolated { $0.committed(results) } }
    push.happened = { event in shard.assumeIsolated { $0.pushHappened(event) } }
    var router = ServiceRouter()
    let door = ShardDoor(to: shard)
    let taps = MessageTaps(listeners: [listener])
    Explainer(door: door, store: store, taps: taps, settings: settings.timeline, nodes: nil).register(in: &router)
    let control = try ControlService(path: socket, loop: loop, router: router)
    return Station.Kept(door: door, store: store, push: push, control: control, taps: taps)
}

@Suite("explain, over the control socket", .timeLimit(.minutes(10)))
struct ExplainerTests {
    /// Finds the members of a JSON value whose times are not Unix times in seconds.
    private static func moments(in value: JSONValue) -> [String] {
        switch value {
        case .object(let members):
            members.flatMap { member -> [String] in
                guard case .number(let text) = member.value,
                    member.key.hasSuffix("At") || member.key.hasSuffix("Since") || member.key == "date"
                else { return moments(in: member.value) }
                let isMoment = Double(text).map { (1e9..<4e9).contains($0) } ?? false
                return isMoment ? [] : ["\(member.key) \(text)"]
            }
        case .array(let elements): elements.flatMap(moments)
        case .null, .bool, .number, .string: []
        }
    }

    @Test func `a call is explained while it is open and after its end`() async throws {
        try await withStation { station in
            let register = SIPText.register(
                user: "bob", from: Station.phone, callID: "r1", cseq: 1, branch: "r1",
                contact: "<sip:bob@\(Station.phone);pn-provider=fcm;pn-param=p;pn-prid=0123456789abcdef0123>")
            await station.receive(register, from: Station.phone)
            await station.waitUntil { $0.counters[.registerAccepted] == 1 }

            let bytes = SIPText.invite(
                to: "bob", from: "103", at: Station.pbx, callID: "a84b//4c@pbx", branch: "i1")
            await station.receive(bytes, from: Station.pbx)
            _ = try await station.provider.requests.next()
            await station.waitUntil { engine in
                engine.timeline.underWay { $0.delivery == .finished }.count == 1
            }
            let live = try await station.explain("bob@example.net")
            #expect(live.isUser && live.isKnown && live.keepsTimeline)
            #expect(live.held.map(\.callID) == ["a84b//4c@pbx"])
            #expect(live.providers.map(\.name) == ["fcm"])
            #expect(live.contacts.map(\.token) == ["fcm:0123…(20)"])
            let record = try #require(live.records.first)
            #expect(record.answer == "accepted")
            #expect(record.providerID == "m1")
            #expect(record.end == nil)

            guard case .request(let invite) = MessageReader().read(bytes.span, isStream: false) else { return }
            await station.receive(SIPText.hopRequest("CANCEL", for: invite), from: Station.pbx)
            var report = try await station.explain("a84b%2F%2F4c@pbx", "?limit=5")
            while report.records.isEmpty { report = try await station.explain("a84b%2F%2F4c@pbx") }
            #expect(!report.isUser)
            #expect(report.records.map(\.end) == ["caller-gave-up"])
            #expect(report.records.map(\.providerID) == ["m1"])
            #expect(report.records.map(\.aor) == ["bob@example.net"])
            #expect(try await station.explain("sip:bob@EXAMPLE.net").records == report.records)
            #expect(try await station.explain("", "?name=a84b%2F%2F4c@pbx").records == report.records)
            // A list of held calls shows two ids for each call: its record id and its call reference. The timeline can
            // be searched by the record id, the call reference, and the user's name without a domain.
            let ref = try #require(report.records.first?.callRef)
            let code = try #require(report.records.first?.code)
            for name in [ref, code, "bob"] {
                #expect(try await station.explain(name).records == report.records, "\(name)")
            }
            #expect(report.records.first?.deviceName == live.contacts.first?.deviceName)
            #expect(live.held.first?.sleepingDevices == live.contacts.map(\.deviceName))
            let all = try await station.get("/v1/explain/bob@example.net")
            let json = try JSONValue(try await station.get("/v1/explain/a84b%2F%2F4c@pbx").body)
            let last = try #require(json["records"]?.array?.first)
            for name in ["requestedAt", "sentAfter", "answeredAfter", "endedAfter"] {
                #expect(last[name] != nil, "\(name)")
            }
            #expect(Self.moments(in: json) + Self.moments(in: try JSONValue(all.body)) == [])
            // The push token appears nowhere in the answer.
            #expect(!String(decoding: all.body, as: UTF8.self).contains("456789abcdef"))
        }
    }

    @Test func `a record has the id of the call's trace while the daemon sends spans`() async throws {
        try await withStation { station in
            let bytes = SIPText.invite(to: "eve", from: "103", at: Station.pbx, callID: "c1", branch: "i1")
            await station.receive(bytes, from: Station.pbx)
            var report = try await station.explain("c1")
            while report.records.isEmpty { report = try await station.explain("c1") }
            #expect(report.records.map(\.traceID) == [nil])
            let loop = station.session.loop
            try await Bench(loop).run { _ in
                var settings = OTLPSettings()
                settings.url = "http://127.0.0.1:4318"
                station.kept.taps.spans = try CallSpans(settings, on: loop, log: .silent)
            }
            // Command for the expected trace id: printf %s c1 | sha256sum | cut -c1-32
            #expect(try await station.explain("c1").records.map(\.traceID) == ["d0f631ca1ddba8db3bcfcb9e057cdc98"])
        }
    }

    @Test func `a call to an unknown user is explained as well, and an unknown name is not found`() async throws {
        try await withStation { station in
            let bytes = SIPText.invite(to: "eve", from: "103", at: Station.pbx, callID: "c1", branch: "i1")
            await station.receive(bytes, from: Station.pbx)
            var report = try await station.explain("c1")
            while report.records.isEmpty { report = try await station.explain("c1") }
            #expect(report.records.map(\.refusal) == ["unknown-user"])
            #expect(report.records.map(\.endStatus) == [404])
            #expect(report.records.map(\.source) == ["\(Station.pbx)"])
            for name in ["eve@example.net", "eve", "\(Station.pbx)", "\(Station.pbx.address)"] {
                #expect(try await station.explain(name).records.count == 1, "\(name)")
            }
            #expect(try await station.explain("adam@example.net").isEmpty)
            #expect(try await station.explain("c2").isEmpty)
            #expect(try await station.get("/v1/explain/c1?limit=0").status == 400)
        }
    }
}
