import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Timekeeping

/// A bench with bob's phone over UDP or TCP; the phone may move between addresses.
final class PhoneBench {
    enum Invite { case first, last }

    let bench: EngineBench
    private let transport: Transport
    private var registers = 0
    private var calls = 0
    private var reports: UInt64 = 0
    /// For each push token, the last REGISTER that the phone sent with it.
    private var registrations: [String?: (callID: String, cseq: Int)] = [:]
    private(set) var place = 0
    private(set) var pushes: [PushID] = []
    private var credentials: [PushCredentials.Order] = []
    /// The INVITEs that the phone has received, in the order of their arrival.
    private(set) var invites: [SIPRequest] = []
    private(set) var cancels: [SIPRequest] = []
    private(set) var questions: [SIPRequest] = []
    private var records: [TimelineRecord] = []

    init(_ transport: Transport = .udp, _ change: (inout ProxySettings) -> Void = { _ in }) {
        // Other suites test the OPTIONS to phones with open connections, so the daemon of this bench sends none.
        bench = EngineBench {
            $0.call.asksConnections = false
            change(&$0)
        }
        self.transport = transport
    }

    func flow(_ place: Int) -> Flow {
        Flow(
            transport: transport, listener: transport == .udp ? 0 : 1,
            connection: transport == .udp ? 0 : UInt64(place + 1),
            remote: Endpoint(EngineBench.phone.address, UInt16(40_000 + place)))
    }

    // MARK: The phone

    /// Registers the phone at address number `place`, or refreshes its registration at its present address.
    ///
    /// - Returns: the engine's actions without the commit and the 200. All actions are returned if the commit and the
    ///   200 do not come first, or if a commit is missing or unexpected.
    func register(
        at place: Int? = nil, token: String? = "tok1", isRefresh: Bool = false, expires: Int = 3600,
        commits: Bool? = nil
    ) -> [String] {
        self.place = place ?? self.place
        if isRefresh, let last = registrations[token] {
            registrations[token] = (last.callID, last.cseq + 1)
        } else {
            registers += 1
            registrations[token] = ("r\(registers)", 1)
        }
        guard let (callID, cseq) = registrations[token] else { return [] }
        let flow = flow(self.place)
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        let text = SIPText.register(
            user: "bob", from: flow.remote, transport: transport, callID: callID, cseq: cseq,
            branch: "\(callID)x\(cseq)", contact: "<sip:bob@192.0.2.5\(push)>", expires: expires)
        let first = bench.receive(text, on: flow)
        let said = said(first + bench.commitAll(in: first))
        let hasCommit = said.first == "commit"
        let rest = hasCommit ? said[1...] : said[...]
        let isAccepted = rest.first == "200 register > \(self.place)" && (commits ?? hasCommit) == hasCommit
        return isAccepted ? Array(rest.dropFirst()) : said
    }

    func keepAlive(at place: Int) -> [String] {
        bench.engine.flowAlive(flow(place), now: bench.now)
        return said(bench.take())
    }

    func closed(_ place: Int) -> [String] {
        bench.engine.flowClosed(flow(place), now: bench.now)
        return said(bench.take())
    }

    /// Lets the phone answer an INVITE, even from another address than the address that received the INVITE.
    func answer(_ status: Status, to invite: SIPRequest?, at place: Int? = nil) -> [String] {
        guard let invite else { return ["no INVITE"] }
        return said(
            bench.receive(
                SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5"),
                on: flow(place ?? self.place)))
    }

    // MARK: The caller, the provider and the clock

    func call(extra: [String] = []) -> [String] {
        calls += 1
        return said(bench.invite(callID: "call\(calls)", branch: "i\(calls)", extra: extra))
    }

    func cancel(_ reasons: [String] = []) -> [String] {
        said(bench.cancel(reasons.map { "Reason: \($0)" }))
    }

    @discardableResult
    func give(_ outcome: PushOutcome, _ number: Int? = nil) -> [String] {
        guard let id = number.map({ pushes[$0] }) ?? pushes.last else { return ["no push"] }
        bench.finish(id, outcome)
        return said(bench.take())
    }

    func provider(_ outcome: PushOutcome?) -> [String] {
        guard let id = pushes.last else { return ["no push"] }
        let told = pass(.milliseconds(80))
        guard let outcome else { return told }
        bench.finish(id, outcome)
        return told + said(bench.take())
    }

    func lateProvider(_ outcome: PushOutcome) -> [String] {
        guard let id = pushes.last else { return ["no push"] }
        let told = pass(.milliseconds(80))
        bench.finish(id, outcome)
        return told + said(bench.take())
    }

    func makeCredential() -> [String] {
        guard let order = credentials.last else { return ["no credential was wanted"] }
        return said(bench.makeCredential(order))
    }

    func pass(_ duration: Duration) -> [String] { said(bench.pass(duration)) }

    // MARK: The actions

    func said(_ actions: [ProxyAction]) -> [String] {
        pushes += actions.pushIDs
        credentials += actions.credentials
        records += actions.records
        return actions.compactMap { action in
            guard case .send(let bytes, let flow) = action, flow.remote != EngineBench.pbx else {
                return story([action]).first
            }
            let place = flow.remote.port == 5060 ? "contact" : "\(Int(flow.remote.port) - 40_000)"
            guard let request = readRequest(bytes) else {
                return story([action]).first?.replacing("phone", with: place).replacing("\(flow.remote)", with: place)
            }
            if request.method == .invite, !invites.contains(where: { $0.via.branch == request.via.branch }) {
                invites.append(request)
            }
            if request.method == .cancel { cancels.append(request) }
            if request.method == .options { questions.append(request) }
            return "\(request.method) > \(place)"
        }
    }

    /// Returns a number for the next report over HTTP.
    func nextReport() -> UInt64 {
        reports += 1
        return reports
    }

    func takeRecords() -> [String] {
        defer { records = [] }
        return records.map(\.words)
    }
}

extension TimelineRecord {
    /// Describes the content of the timeline record in short form.
    fileprivate var words: String {
        let times = [
            ("sent", steps.sent), ("answered", steps.answered), ("registered", steps.registered),
            ("invited", steps.invited), ("rang", steps.rang), ("ended", steps.ended),
        ]
        let facts = [
            app.isEmpty ? nil : app, kind == .call ? nil : kind.rawValue, omission?.rawValue, refusal?.rawValue,
            delivery == .withdrawn ? "withdrawn" : nil, answer.map { "provider \($0.rawValue)" },
            sign.map { "by \($0.rawValue)" }, end.map { "end \($0.rawValue)" }, endStatus.map { "with \($0)" },
        ]
        return (facts + times.map { name, time in time.map { "\(name) \($0)" } }).compactMap { $0 }
            .joined(separator: ", ")
    }
}
