package import Calling
package import LocationService
package import Routing
package import Addressing
import Bytes
import PushDelivery
package import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// Makes inputs for single state machines, in tests without an engine.
package struct MachineScene {
    package static let pbx = Flow(
        transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x0a00_0002), 5060))
    package static let phone = Flow(
        transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0xc000_0205), 40_000))
    package static let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    package var now = Moment(instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))

    package init() {}

    package mutating func pass(_ duration: Duration) {
        now = Moment(instant: now.instant + duration, date: now.date + duration)
    }

    package static func request(_ bytes: [UInt8], on flow: Flow) throws -> IncomingRequest {
        IncomingRequest(try read(bytes), on: flow, isTrusted: flow == pbx)
    }

    private static func read(_ bytes: [UInt8]) throws -> SIPRequest {
        guard let request = SIPText.readRequest(bytes) else { throw Unreadable() }
        return request
    }

    package struct Unreadable: Error {
        package init() {}
    }

    package static func invite(_ callID: String = "c1") throws -> IncomingRequest {
        try request(SIPText.invite(to: "bob", from: "103", at: pbx.remote, callID: callID, branch: callID), on: pbx)
    }

    package static func register(token: String, callID: String = "r1", cseq: Int = 1) throws -> IncomingRequest {
        try request(
            SIPText.register(
                user: "bob", from: phone.remote, callID: callID, cseq: cseq, branch: "\(callID)x\(cseq)",
                contact: "<sip:bob@\(phone.remote);pn-provider=fcm;pn-param=p;pn-prid=\(token)>"), on: phone)
    }

    package func offer(_ callID: String = "c1") -> UserCall {
        UserCall(
            ref: CallRef(rawValue: 7),
            key: UserCallKey(aor: Self.bob, callID: ByteString(callID), fromTag: ByteString("f")),
            receivedAt: now.date, pushDeadline: now.date + .seconds(30), holdUntil: now.instant + .seconds(30),
            caller: Caller(hash: 103, isTrusted: true), mayPush: true)
    }

    /// Creates a registrar in which bob has one push contact for each token.
    package func registrar(_ tokens: String...) throws -> Registrar {
        var registrar = Registrar(
            settings: RegistrarSettings(), users: UserDirectory(), enabled: [.fcm], startedAt: now.date)
        for (number, token) in tokens.enumerated() {
            let work = RegistrarWork.register(try Self.register(token: token, callID: "r\(number)"))
            guard case .committing(let plan, let ticket) = registrar.begin(work, for: Self.bob, now: now) else {
                throw Unreadable()
            }
            _ = registrar.committed(ticket, succeeded: true)
            registrar.complete(plan)
        }
        return registrar
    }
}
