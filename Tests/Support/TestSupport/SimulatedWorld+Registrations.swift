import Bytes
import ProxyCore
package import Registration
import SIPGrammar
import Timekeeping
import UpstreamRegistration

/// The contacts at the simulated PBX, and the state of its registrar.
package struct SimulatedRegistrations {
    struct Contact {
        let uri: String
        let callID: String
        var cseq: UInt32
        var until: Instant
    }

    var contacts: [String: [Contact]] = [:]
    /// The number in the only nonce that the PBX accepts.
    var nonce = 1
    var silentUntil = Instant.distantPast
    /// The limit of CSeq in the simulated store, see `CSeqSupply`.
    var ceiling: UInt32 = 0
    package var accepted = 0
    /// The number of calls that went to voicemail, because the user had no contact at the PBX.
    package var voicemails = 0

    static let granted: Duration = .seconds(300)

    func live(_ user: String, now: Instant) -> [Contact] { (contacts[user] ?? []).filter { $0.until > now } }

    func contact(of user: String, now: Instant) -> String? { live(user, now: now).first?.uri }

    package static func users(_ count: Int) -> UserDirectory {
        var users = UserDirectory()
        for number in 0..<count {
            users.add(
                DigestUser(
                    name: ByteString("u\(number)"), realm: ByteString("example.net"),
                    password: ByteString("p\(number)"),
                    algorithms: [.md5], functions: .forTests))
        }
        return users
    }
}

/// The PBX as a registrar at which the engine registers the users.
extension SimulatedWorld {
    func registrarIsAsked(_ request: SIPRequest) {
        guard now.instant >= registrations.silentUntil else { return }
        guard request.method == .register else {
            return deliver(SIPText.response(200, to: request, tag: "pbx"), on: pbxFlow)
        }
        let user = request.to.uri.user?.string ?? ""
        guard request.authorization.first?.nonce.string == "n\(registrations.nonce)" else {
            let challenge = "Digest realm=\"example.net\", nonce=\"n\(registrations.nonce)\", qop=\"auth\", stale=true"
            return deliver(
                SIPText.response(401, to: request, tag: "pbx", extra: ["WWW-Authenticate: \(challenge)"]), on: pbxFlow)
        }
        var stored = registrations.live(user, now: now.instant)
        if let contact = request.contacts.first?.uri.text.string {
            let (callID, cseq) = (request.callID.string, request.cseq.number)
            if stored.contains(where: { $0.uri == contact && $0.callID == callID && $0.cseq > cseq }) {
                return deliver(SIPText.response(500, to: request, tag: "pbx"), on: pbxFlow)
            }
            stored.removeAll { $0.uri == contact }
            if request.expires != 0 {
                stored.append(
                    SimulatedRegistrations.Contact(
                        uri: contact, callID: callID, cseq: cseq, until: now.instant + SimulatedRegistrations.granted))
            }
            registrations.accepted += 1
            registrations.contacts[user] = stored
        }
        let rows = stored.map { contact in
            "Contact: <\(contact.uri)>;expires=\((contact.until - now.instant).components.seconds)"
        }
        deliver(SIPText.response(200, to: request, tag: "pbx", extra: rows), on: pbxFlow)
    }

    /// Restarts the PBX, which loses its registrations and its nonce, and answers no REGISTER and OPTIONS for up to a
    /// minute.
    func pbxRestarts() {
        let pause = random.milliseconds(0...60_000)
        tell("the PBX loses its registrations, and is silent for \(pause)")
        registrations.contacts = [:]
        registrations.nonce += 1
        registrations.silentUntil = now.instant + pause
    }

    func store(_ ceiling: UInt32) {
        let node = nodes[0]
        let generation = node.generation
        at(random.milliseconds(1...6)) { world in
            world.registrations.ceiling = ceiling
            guard node.generation == generation else { return }
            node.engine.registerCeilingStored(ceiling, now: world.now)
            world.drain()
        }
    }

    func checkRegistrations() {
        guard plan.registersAtPBX else { return }
        let engine = nodes[0].engine
        for number in 0..<plan.users {
            let user = "u\(number)"
            let live = registrations.live(user, now: now.instant)
            let isWakeable = phones.contains { $0.user == user && !$0.isOrdinary && $0.isAcknowledged }
            let aor = AddressOfRecord(user: ByteString(user), host: ByteString("example.net"))
            let state = engine.upstreamUsers.user(aor).flatMap { engine.upstreamUsers.agent.status(of: $0) }?.state
            if live.count != (isWakeable ? 1 : 0) {
                violate(
                    "\(user) has \(live.count) contacts at the PBX in the evening, and is \(state?.name ?? "nobody")")
            }
        }
        for call in calls where call.contact != nil && call.finals.contains(404) && !call.sawCrash {
            violate("\(call.callID) to a live token of \(call.user) ended with 404")
        }
    }
}
