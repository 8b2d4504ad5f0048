import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that a phone that wakes registers with one REGISTER, and that nobody else can use the phone's credentials (T39).
@Suite("Nonces that phones use again (T39)")
struct ReusedNonceTests {
    private static let london = IPAddress(v4: 0xc633_6401)
    private static let paris = IPAddress(v4: 0xc633_6402)

    // MARK: The phone

    @Test func `a phone that wakes at another address registers with one request, and gets its call`() throws {
        let scene = try NonceScene()
        #expect(scene.register(on: scene.stream(2, Self.paris), count: 2) == "200")
        _ = scene.bench.pass(.seconds(86_400))
        scene.bench.engine.flowClosed(scene.stream(2, Self.paris), now: scene.bench.now)
        #expect(story(scene.bench.invite()).contains("push invite tok1"))
        #expect(scene.register(on: scene.stream(3, Self.london), count: 3) == "200")
        #expect(scene.lastStory.contains("invite > \(Endpoint(Self.london, 40_003))"))
        let figures = scene.bench.engine.figures
        #expect(figures[.wakeKeptNonce] == 1 && figures[.wakeChallenged] == 0)
    }

    @Test func `the count must rise, with gaps or without`() throws {
        let scene = try NonceScene()
        #expect(scene.register(count: 7) == "200")
        for count in [1, 6, 7] {
            scene.nonce = scene.firstNonce
            #expect(scene.register(on: scene.stream(8, Self.paris), count: count) == "401 stale", "\(count)")
        }
        scene.nonce = scene.firstNonce
        #expect(scene.register(count: 8) == "200")
    }

    @Test func `a REGISTER that is sent again word for word moves no contact`() throws {
        let scene = try NonceScene()
        let home = scene.stream(2, Self.paris)
        #expect(scene.register(on: home, count: 2) == "200")
        _ = scene.bench.pass(.seconds(600))
        let seen = try #require(scene.last)
        #expect(scene.send(seen, on: scene.stream(9, Self.london)) == "401 stale")
        #expect(scene.flow == home)
        // An attacker sends the phone's credentials in a new transaction, with another contact.
        let stolen = seen.replacing("branch=z9hG4bK", with: "branch=z9hG4bKx").replacing("tok1", with: "mine")
        #expect(scene.send(stolen, on: scene.stream(9, Self.london)) == "401 stale")
        #expect(scene.bench.targets.map(\.pushToken?.prid.string) == ["tok1"])
    }

    @Test func `in its first minute a nonce belongs to its address`() throws {
        let scene = try NonceScene(pause: .zero)
        #expect(scene.register(on: scene.stream(2, Self.paris), count: 2) == "401 stale")
        scene.nonce = scene.firstNonce
        #expect(scene.register(on: scene.stream(3, NonceScene.home), count: 2) == "200")
    }

    @Test func `over UDP a new address must answer a challenge, because it may be forged`() throws {
        let scene = try NonceScene(transport: .udp)
        #expect(scene.register(on: EngineBench.udp(Endpoint(Self.paris, 40_001)), count: 2) == "401 stale")
        #expect(scene.flow == scene.first)
        scene.nonce = scene.firstNonce
        #expect(scene.register(on: EngineBench.udp(Endpoint(NonceScene.home, 5)), count: 3) == "200")
        // A trusted edge may use the phone's nonce, because the edge forwards requests of phones at any address.
        #expect(scene.register(on: EngineBench.udp(EngineBench.pbx), count: 4) == "200")
    }

    @Test func `a phone that uses its nonce again gets another good one after a stale one`() throws {
        let scene = try NonceScene()
        _ = scene.bench.pass(.seconds(100))
        let flow = scene.first
        // The phone sends a nonce that the daemon does not know, with the same contact, flow and Call-ID as before.
        scene.nonce = String(scene.nonce.reversed())
        #expect(scene.register(on: flow, count: 2, callID: "one") == "401 stale")
        #expect(scene.register(on: flow, count: 1, callID: "one") == "200")
        #expect(scene.commits == 1)
        _ = scene.bench.pass(.seconds(100))
        #expect(scene.register(on: flow, count: 2, callID: "one") == "200")
    }

    // MARK: The store

    @Test func `after a crash the count goes on where the store has it`() throws {
        let scene = try NonceScene()
        #expect(scene.register(on: scene.stream(2, Self.paris), count: 2) == "200")
        let seen = try #require(scene.last)
        try scene.crash()
        #expect(scene.send(seen, on: scene.stream(1, Self.london)) == "401 stale")
        #expect(scene.register(on: scene.stream(2, Self.london), count: 3) == "200")
    }

    @Test func `a count is in the store before the 200, whenever the daemon is killed`() throws {
        let scene = try NonceScene()
        var used: [[UInt8]] = []
        for count in 2..<80 {
            #expect(scene.register(on: scene.first, count: count, callID: "one") == "200")
            used.append(try #require(scene.last))
            let after = try scene.copyAfterCrash()
            for text in used.suffix(40) {
                #expect(after.send(text, on: after.stream(9, Self.london)) == "401 stale")
            }
            #expect(after.register(on: after.stream(9, Self.london), count: 200) == "200")
        }
        // Only three of the phone's 78 refreshes on an open connection waited for the disk.
        #expect(scene.commits == 3)
    }

    @Test func `a REGISTER whose commit fails uses nothing up`() throws {
        let scene = try NonceScene()
        scene.commitsFail = true
        #expect(scene.register(count: 2) == "503")
        scene.commitsFail = false
        #expect(scene.register(count: 3) == "200")
    }

    @Test func `rows of older stores have no nonce, and their phones are challenged`() throws {
        let scene = try NonceScene()
        let row = try #require(scene.rows.values.first)
        scene.rows[row.id] = StoredBinding(
            id: row.id, aor: row.aor, contact: row.contact, callID: row.callID, cseq: row.cseq, path: row.path,
            flow: row.flow, granted: row.granted, freshUntil: row.freshUntil, registeredAt: row.registeredAt,
            isPush: row.isPush)
        try scene.crash()
        #expect(scene.register(count: 2) == "401 stale")
        #expect(scene.register(count: 1) == "200")
        _ = scene.bench.pass(.seconds(100))
        #expect(scene.register(count: 2) == "200")
    }

    // MARK: The end of a nonce

    @Test func `a nonce ends with its contact`() throws {
        let scene = try NonceScene()
        #expect(scene.register(on: scene.stream(2, Self.paris), count: 2, expires: 0) == "200")
        #expect(scene.bench.targets.isEmpty)
        #expect(scene.register(on: scene.stream(3, Self.paris), count: 3) == "401 stale")
        #expect(scene.register(on: scene.stream(3, Self.paris), count: 1) == "200")
    }

    @Test func `a sign-out that is sent again removes no later contact`() throws {
        let scene = try NonceScene()
        #expect(scene.register(on: scene.stream(2, Self.paris), count: 2, expires: 0) == "200")
        let seen = try #require(scene.last)
        scene.nonce = ""
        #expect(scene.register(count: 1) == "401")
        #expect(scene.register(count: 1) == "200")
        _ = scene.bench.pass(.seconds(100))
        #expect(scene.send(seen, on: scene.stream(9, Self.london)) == "401 stale")
        #expect(scene.bench.targets.count == 1)
    }

    @Test func `a wrong password ends the nonce, counts, and is not told from an old nonce`() throws {
        let scene = try NonceScene()
        #expect(scene.register(on: scene.stream(5, Self.london), count: 2, password: "guess") == "401 stale")
        #expect(scene.bench.engine.figures[.loginFailed] == 1)
        scene.nonce = scene.firstNonce
        #expect(scene.register(on: scene.stream(6, Self.london), count: 3, password: "guess") == "401 stale")
        #expect(scene.bench.engine.figures[.loginFailed] == 1, "there is one guess for a nonce")
        scene.nonce = scene.firstNonce
        #expect(scene.register(count: 3) == "401 stale")
        #expect(scene.register(count: 1) == "200")
    }

    @Test func `the setting switches it off`() throws {
        let scene = try NonceScene { $0.digest.reusesNonces = false }
        #expect(scene.register(count: 2) == "401 stale")
        #expect(scene.bench.invite().pushes.first?.nonce == nil)
        #expect(scene.rows.values.allSatisfy { $0.nonce == .none })
    }

    // MARK: Others

    @Test func `a nonce refreshes its own contact only`() throws {
        let scene = try NonceScene()
        #expect(scene.register(count: 2, token: "tok2", callID: "second") == "401 stale")
        #expect(scene.register(count: 1, token: "tok2", callID: "second") == "200")
        _ = scene.bench.pass(.seconds(100))
        let second = scene.nonce
        scene.nonce = scene.firstNonce
        #expect(scene.register(count: 2) == "200")
        #expect(scene.register(count: 3, token: "tok2") == "401 stale")
        scene.nonce = second
        #expect(scene.register(count: 2, token: "tok2") == "200")
        // The daemon refuses a REGISTER without contacts, because the REGISTER changes no binding that could store its
        // nonce count.
        #expect(scene.register(count: 3, contact: "") == "401 stale")
    }

    @Test func `the count of one contact also counts for other contacts with the same nonce`() throws {
        let scene = try NonceScene(pause: .zero)
        // A second contact registers with the next count of the first contact's nonce, before the nonce is old.
        let second = scene.stream(7, NonceScene.home)
        #expect(scene.register(on: second, count: 2, token: "tok2", callID: "second") == "200")
        let seen = try #require(scene.last)
        #expect(scene.bench.targets.count == 2)
        _ = scene.bench.pass(.seconds(120))
        // An attacker sends the credentials of the second contact's REGISTER to change the first contact.
        let stolen = seen.replacing("branch=z9hG4bK", with: "branch=z9hG4bKx").replacing("tok2", with: "tok1")
            .replacing("\(second.remote);pn", with: "\(scene.first.remote);pn").replacing("second", with: "other")
        #expect(scene.send(stolen, on: scene.stream(9, Self.london)) == "401 stale")
        #expect(!scene.bench.targets.contains { $0.flow == scene.stream(9, Self.london) })
        scene.nonce = scene.firstNonce
        #expect(scene.register(count: 3, callID: "one") == "200")
    }

    @Test func `a nonce that its phone uses without refreshing its contact is forgotten, on the disk too`() throws {
        let scene = try NonceScene(pause: .zero)
        // The daemon refuses a REGISTER without Contact (a query), because the query changes no contact that could
        // store its nonce count.
        #expect(scene.register(on: scene.first, count: 2, callID: "one", contact: "") == "401 stale")
        let seen = try #require(scene.last)
        #expect(scene.rows.values.allSatisfy { $0.nonce == .none })
        _ = scene.bench.pass(.seconds(120))
        let stolen = seen.replacing("branch=z9hG4bK", with: "branch=z9hG4bKx")
        #expect(scene.send(stolen, on: scene.stream(9, Self.london)) == "401 stale")
        scene.nonce = scene.firstNonce
        #expect(scene.register(count: 9, callID: "one") == "401 stale")
    }

    @Test func `another user's nonce is worth nothing`() throws {
        let scene = try NonceScene()
        #expect(scene.register(user: "eve", count: 2) == "401 stale")
        let eve = scene.plain(user: "bob", on: scene.stream(4, Self.paris), callID: "x")
        let forged = TestDigest.credentials("eve", nonce: scene.firstNonce, count: 2, to: eve)
        #expect(scene.send(forged, on: scene.stream(4, Self.paris)) == "403")
        #expect(scene.bench.targets.count == 1)
    }

    @Test func `garbage in a nonce finds no binding`() throws {
        let scene = try NonceScene { $0.digest.allowsMissingQop = true }
        for nonce in ["", "0", String(repeating: "A", count: 28), String(repeating: "_", count: 28), "\u{1f4a5}"] {
            scene.nonce = nonce
            #expect(scene.register(count: 2)?.hasPrefix("401") == true, "\(nonce)")
        }
    }

    @Test func `a client without qop gets a nonce for its next REGISTER, and may use it once`() throws {
        let scene = try NonceScene(count: nil) { $0.digest.allowsMissingQop = true }
        let first = try #require(scene.nextNonce)
        scene.nonce = first
        #expect(scene.register(on: scene.stream(2, Self.paris), count: nil) == "200")
        let seen = try #require(scene.last)
        let second = try #require(scene.nextNonce)
        #expect(second != first)
        #expect(scene.send(seen, on: scene.stream(9, Self.london)) == "401 stale")
        _ = scene.bench.pass(.seconds(100))
        scene.nonce = first
        #expect(scene.register(on: scene.stream(3, Self.london), count: nil) == "401 stale")
        try scene.crash()
        scene.nonce = second
        #expect(scene.register(on: scene.stream(2, Self.paris), count: nil) == "200")
    }

    // MARK: Pushes

    @Test func `a push has a nonce that is good at any address, for one user and once`() throws {
        let scene = try NonceScene()
        let pushed = try #require(scene.bench.invite().pushes.first?.nonce).string
        scene.nonce = pushed
        #expect(scene.register(user: "eve", on: scene.stream(4, Self.paris), count: 1) == "401 stale")
        scene.nonce = pushed
        #expect(scene.register(on: scene.stream(5, Self.london), count: 1) == "200")
        #expect(scene.lastStory.contains("invite > \(Endpoint(Self.london, 40_005))"))
        #expect(scene.bench.engine.figures[.wakePushedNonce] == 1)
        let seen = try #require(scene.last)
        let stolen = seen.replacing("branch=z9hG4bK", with: "branch=z9hG4bKx")
        #expect(scene.send(stolen, on: scene.stream(9, Self.paris)) == "401 stale")
        _ = scene.bench.pass(.seconds(100))
        // The nonce's lifetime is over, but the binding still keeps the nonce and its count.
        #expect(scene.send(stolen, on: scene.stream(9, Self.paris)) == "401 stale")
        scene.nonce = pushed
        #expect(scene.register(on: scene.stream(6, Self.paris), count: 2) == "200")
    }

    @Test func `an unused nonce of a push ends soon, and over UDP it needs a known address`() throws {
        let scene = try NonceScene()
        let pushed = try #require(scene.bench.invite().pushes.first?.nonce).string
        scene.nonce = pushed
        #expect(scene.register(on: EngineBench.udp(Endpoint(Self.paris, 5)), count: 1) == "401 stale")
        _ = scene.bench.pass(.seconds(61))
        scene.nonce = pushed
        #expect(scene.register(on: scene.stream(5, Self.london), count: 1) == "401 stale")
    }
}

/// A test bench with bob's phone, the nonce that the phone uses, and the rows of the store.
private final class NonceScene {
    static let home = EngineBench.phone.address

    private(set) var bench: EngineBench
    /// The nonce that the phone uses next: the nonce of the last challenge.
    var nonce = ""
    private(set) var firstNonce = ""
    var rows: [DeviceID: StoredBinding] = [:]
    private(set) var commits = 0
    var commitsFail = false
    /// The bytes of the last request that the phone sent.
    private(set) var last: [UInt8]?
    private(set) var lastStory: [String] = []
    private(set) var nextNonce: String?
    /// The flow on which the phone got a challenge, and on which it sends the answer.
    private var challenged: Flow?
    let first: Flow
    private var number = 0
    private let change: (inout ProxySettings) -> Void

    /// Makes a scene in which the phone registered `pause` ago.
    init(
        transport: Transport = .tcp, pause: Duration = .seconds(120), count: Int? = 1,
        _ change: @escaping (inout ProxySettings) -> Void = { _ in }
    ) throws {
        self.change = change
        bench = EngineBench.authenticating(change)
        first =
            transport == .udp
            ? EngineBench.udp(EngineBench.phone)
            : Flow(transport: .tcp, listener: 0, connection: 1, remote: EngineBench.phone)
        try #require(register(on: first, count: count, callID: "one") == "401")
        try #require(register(on: first, count: count, callID: "one") == "200")
        commits = 0
        firstNonce = nonce
        _ = bench.pass(pause)
    }

    private init(after scene: NonceScene) {
        change = scene.change
        first = scene.first
        nonce = scene.nonce
        rows = scene.rows
        number = scene.number + 1_000
        bench = scene.bench
        bench = restarted()
    }

    func stream(_ connection: UInt64, _ address: IPAddress) -> Flow {
        Flow(
            transport: .tcp, listener: 0, connection: connection,
            remote: Endpoint(address, 40_000 + UInt16(connection)))
    }

    /// The flow of bob's registered phone.
    var flow: Flow? { bench.targets.first?.flow }

    // MARK: The disk

    func crash() throws { bench = restarted() }

    /// Returns a copy of the scene in which the daemon has started again with the rows of the store.
    func copyAfterCrash() throws -> NonceScene { NonceScene(after: self) }

    private func restarted() -> EngineBench {
        let next = EngineBench.authenticating(change)
        _ = next.pass(.seconds(86_400))
        for row in rows.values.sorted(by: { $0.id < $1.id }) { _ = next.engine.restore(row, now: next.now) }
        next.engine.restored(now: next.now)
        return next
    }

    // MARK: The phone

    func text(
        user: String = "bob", on flow: Flow, token: String = "tok1", callID: String, expires: Int = 3600,
        contact: String? = nil
    ) -> [UInt8] {
        number += 1
        let own = "<sip:\(user)@\(flow.remote);pn-provider=fcm;pn-param=p;pn-prid=\(token)>"
        let text = SIPText.register(
            user: user, from: flow.remote, transport: flow.transport, callID: callID, cseq: number,
            branch: "n\(number)", contact: contact ?? own, expires: expires)
        return contact == "" ? text.replacing("Contact: \r\n", with: "") : text
    }

    /// Sends a REGISTER with the phone's nonce. If `flow` is `nil`, the request comes on the flow of the last
    /// challenge; without a challenge, from a new address.
    ///
    /// - Returns: the status, followed by `stale` if the challenge has `stale=true`.
    func register(
        user: String = "bob", on flow: Flow? = nil, count: Int?, password: String? = nil, token: String = "tok1",
        callID: String? = nil, expires: Int = 3600, contact: String? = nil
    ) -> String? {
        let flow = flow ?? challenged ?? stream(UInt64(100 + number), IPAddress(v4: 0xcb00_7100 + UInt32(number)))
        let request = text(
            user: user, on: flow, token: token, callID: callID ?? "c\(number)", expires: expires, contact: contact)
        let text = String(decoding: request, as: UTF8.self)
        let proved =
            nonce.isEmpty
            ? request : TestDigest.credentials(user, password: password, nonce: nonce, count: count, to: text)
        return send(proved, on: flow)
    }

    func send(_ request: [UInt8], on flow: Flow) -> String? {
        last = request
        var actions = bench.receive(request, on: flow)
        for action in actions {
            guard case .commit(let changes, let ticket) = action else { continue }
            commits += 1
            if !commitsFail {
                for case .binding(let change) in changes {
                    switch change {
                    case .upsert(let row), .refresh(let row): rows[row.id] = row
                    case .delete(let id), .deleteContact(let id, _), .expire(let id, _): rows[id] = nil
                    }
                }
            }
            bench.engine.committed(ticket, succeeded: !commitsFail, now: bench.now)
            actions += bench.take()
        }
        for case .record(let changes) in actions {
            for case .binding(.upsert(let row)) in changes { rows[row.id] = row }
        }
        lastStory = story(actions)
        guard let response = actions.bytes.compactMap(SIPText.readResponse).first else { return nil }
        let challenge = response.frame.values(of: .wwwAuthenticate).first?.string
        if challenge != nil { nonce = TestDigest.nonce(of: response) }
        challenged = challenge == nil ? nil : flow
        let text = String(decoding: response.frame.bytes.array, as: UTF8.self)
        nextNonce = text.split(separator: "nextnonce=\"").dropFirst().first.map { String($0.prefix { $0 != "\"" }) }
        return "\(response.status)" + (challenge?.contains("stale=true") == true ? " stale" : "")
    }
}

extension NonceScene {
    func plain(user: String, on flow: Flow, callID: String) -> String {
        String(decoding: text(user: user, on: flow, token: "tok1", callID: callID), as: UTF8.self)
    }
}
