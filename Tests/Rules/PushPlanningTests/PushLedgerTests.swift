import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
@testable import PushPlanning
import Registration
import Routing
import SIPTransactions
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("The ledger of pushes, without an engine")
struct PushLedgerTests {
    private var scene = MachineScene()

    /// Makes a ledger with one call that waits for one phone; the ledger has requested a push for the phone.
    private func woken(
        _ change: (inout ProxySettings) -> Void = { _ in },
        _ body: (inout PushLedger, ProxiedRequest, inout SeenOrders) throws -> Void
    ) throws {
        var settings = ProxySettings()
        settings.dispatch = EngineFixture.dispatch
        change(&settings)
        var random: UInt64 = 0
        var ledger = PushLedger(
            settings, restoring: [],
            random: {
                random += 1
                return random
            }, log: .silent)
        let registrar = try scene.registrar("t1")
        let target = try #require(registrar.bindings.forkTargets(for: MachineScene.bob, now: scene.now.instant).first)
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let invite = try MachineScene.invite()
        let userCall = scene.offer()
        let call = calls.begin(
            invite, ServerTransactionID(rawValue: 1), branches: [ForkBranch(device: target.id)],
            purpose: .userCall(userCall))
        call.fork.waits(0)
        var actions = SeenOrders()
        let caller = CallerIdentity(invite.request, format: .user)
        ledger.callOffered(userCall, from: caller, at: scene.now.date, to: [target.id], into: &actions)
        ledger.wake(
            target, try #require(target.pushToken), for: 0, of: call, userCall, caller, now: scene.now, into: &actions)
        try body(&ledger, call, &actions)
    }

    private static func wantsCredential(_ settings: inout ProxySettings) {
        let sources = settings.dispatch.directory.apps.map { _ in PushCredentials.Source.made(0) }
        settings.dispatch.credentials = PushCredentials(sources, kinds: [.accessToken])
    }

    private let accepted = PushOutcome.accepted(nil)

    @Test func `a push and its record have different numbers`() throws {
        try woken { ledger, call, actions in
            let push = try #require(actions.pushes.first)
            #expect(call.fork.branches[0].push == push.id)
            #expect(call.fork.branches[0].record != nil)
            #expect(ledger.timeline.count == 1 && push.badge == 1)
            // The next push to the same phone has a record of its own. The id of the push can differ from its code.
            #expect(ledger.newRecordID().rawValue == 2)
            let code = ledger.newCode()
            for number: UInt64 in 2...3 {
                ledger.send(
                    AskedPush(.notification, code, device: push.device, aor: MachineScene.bob, record: nil),
                    PushRequest(
                        code: code, device: push.device, token: push.token, message: push.message, badge: 1,
                        deadline: push.deadline),
                    now: scene.now, into: &actions)
                #expect(ledger.pushes[PushID(rawValue: number)]?.code == code)
            }
        }
    }

    /// Tells the ledger how the provider answered the first push.
    private func answer(_ ledger: inout PushLedger, _ status: Int, _ actions: inout SeenOrders) throws {
        let transmission = try #require(actions.transmissions.first)
        let answer = ProviderAnswer(status: status)
        ledger.happened(.answered(transmission, answer, after: .milliseconds(80)), now: scene.now, into: &actions)
    }

    @Test func `a push leaves in the turn in which it is asked for, which counts until its provider refuses it`() throws
    {
        try woken { ledger, call, actions in
            let push = try #require(call.fork.branches[0].push)
            #expect(actions.transmissions.map(\.push.id) == [push] && call.fork.branches[0].wasPushed)
            try answer(&ledger, 401, &actions)
            #expect(!call.fork.branches[0].wasPushed)
            let outcome = ledger.nextOutcome()
            let ended = try #require(outcome)
            #expect(
                ended.push.device == call.fork.branches[0].device && ended.outcome == .credentialsRefused("status 401"))
            let after = ledger.nextOutcome()
            #expect(after == nil && ledger.unread.count == 0 && ledger.pushes.isEmpty)
        }
    }

    @Test func `a failed push is tried again by itself when its pause is over`() throws {
        try woken { ledger, call, actions in
            var later = scene
            try answer(&ledger, 503, &actions)
            let outcome = ledger.nextOutcome()
            #expect(actions.transmissions.count == 1 && outcome == nil)
            while actions.transmissions.count == 1, let next = ledger.nextDeadline,
                next < scene.now.instant + .seconds(1)
            {
                later.pass(next - later.now.instant)
                ledger.timePassed(now: later.now, into: &actions)
                // The ledger's first deadline belongs to the start of the call, and not to the next attempt to send the
                // push.
                _ = ledger.due(now: later.now, into: &actions)
            }
            #expect(actions.transmissions.map(\.push.id) == [call.fork.branches[0].push, call.fork.branches[0].push])
        }
    }

    @Test func `a push that cannot be sent at all has its outcome at once, and its ledger asks to be called`() throws {
        try woken({ $0.dispatch = DispatchSetup(PushDirectory(PushSettings())) }) { ledger, call, actions in
            #expect(actions.transmissions.isEmpty && ledger.nextDeadline == .distantPast)
            let outcome = ledger.nextOutcome()
            let ended = try #require(outcome)
            #expect(!ended.outcome.isAccepted && ended.push.device == call.fork.branches[0].device)
            #expect(ledger.nextDeadline != .distantPast)
        }
    }

    @Test func `a push that waits for a credential leaves when that is made`() throws {
        try woken(Self.wantsCredential) { ledger, call, actions in
            #expect(actions.transmissions.isEmpty && !call.fork.branches[0].wasPushed)
            let order = try #require(actions.credentials.first)
            ledger.happened(.credentialMade(order, "k"), now: scene.now, into: &actions)
            #expect(actions.transmissions.map(\.credential) == ["k"] && call.fork.branches[0].wasPushed)
        }
    }

    @Test func `a push that has not left is withdrawn at once when it is not needed any more`() throws {
        try woken(Self.wantsCredential) { ledger, call, actions in
            ledger.drop(0, of: call, now: scene.now, into: &actions)
            #expect(call.fork.branches[0].push == nil && ledger.unread.count == 0 && ledger.pushes.isEmpty)
            #expect(actions.records.isEmpty)
            ledger.drop(0, of: call, now: scene.now, into: &actions)
            ledger.ended(0, of: call, .answeredElsewhere, now: scene.now, into: &actions)
            #expect(actions.records.map(\.delivery) == [.withdrawn])
            let order = try #require(actions.credentials.first)
            ledger.happened(.credentialMade(order, "k"), now: scene.now, into: &actions)
            let outcome = ledger.nextOutcome()
            #expect(actions.transmissions.isEmpty && outcome == nil)
        }
    }

    @Test(arguments: [true, false])
    func `the outcome of a push that was dropped counts for badge and record`(isTaken: Bool) throws {
        try woken { ledger, call, actions in
            ledger.drop(0, of: call, now: scene.now, into: &actions)
            ledger.ended(0, of: call, .callerGaveUp, now: scene.now, into: &actions)
            #expect(ledger.unread.count == 1 && actions.records.isEmpty)
            // The ledger does not retry a dropped push, whether the provider answers 200 or 503.
            try answer(&ledger, isTaken ? 200 : 503, &actions)
            let outcome = ledger.nextOutcome()
            #expect(outcome?.push.isDropped == true && ledger.pushes.isEmpty)
            #expect(actions.transmissions.count == 1)
            #expect(ledger.unread.count == (isTaken ? 1 : 0))
            #expect(actions.records.map(\.end) == [.callerGaveUp])
            #expect(actions.records.map(\.wasAccepted) == [isTaken])
        }
    }

    @Test func `a phone that gets too many pushes has a record with this reason, and no push`() throws {
        try woken({ $0.call.pushesPerDevice = 1 }) { ledger, call, actions in
            let before = actions.pushes.count
            let registrar = try scene.registrar("t1")
            let target = try #require(
                registrar.bindings.forkTargets(for: MachineScene.bob, now: scene.now.instant).first)
            let caller = CallerIdentity(try MachineScene.invite().request, format: .user)
            let userCall = scene.offer("c2")
            var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
            let other = calls.begin(
                try MachineScene.invite("c2"), ServerTransactionID(rawValue: 2),
                branches: [ForkBranch(device: target.id)], purpose: .userCall(userCall))
            ledger.wake(
                target, try #require(target.pushToken), for: 0, of: other, userCall, caller, now: scene.now,
                into: &actions)
            #expect(before == 1 && actions.pushes.count == 1 && other.fork.branches[0].push == nil)
            ledger.ended(0, of: other, .timeOver, now: scene.now, into: &actions)
            #expect(actions.records.map(\.omission) == [.deviceLimit])
        }
    }

    @Test func `a list that was not accepted is due again, later each time`() throws {
        try woken { ledger, call, actions in
            var now = scene
            let device = try #require(call.fork.branches[0].device)
            var waits: [Duration] = []
            for _ in 1...3 {
                ledger.reportFinished(
                    [CallRef(rawValue: 7)], to: device, of: MachineScene.bob, .noConnection("gone"), now: now.now,
                    into: &actions)
                let before = now.now.instant
                var due: DeviceID?
                while due == nil, let next = ledger.nextDeadline {
                    now.pass(max(.zero, next - now.now.instant))
                    due = ledger.due(now: now.now, into: &actions)?.device
                }
                #expect(due == device)
                waits.append(now.now.instant - before)
            }
            #expect(waits[0] >= .seconds(45) && waits[1] > waits[0] && waits[2] > waits[1])
            ledger.reportFinished(
                [CallRef(rawValue: 7)], to: device, of: MachineScene.bob, accepted, now: now.now, into: &actions)
            #expect(ledger.failedReports.isEmpty)
        }
    }

    @Test func `lists that were owed before a restart are sent in the order of their devices`() {
        let devices = (1...20).map(DeviceID.init(rawValue:))
        var settings = ProxySettings()
        settings.timelineLimit = 0
        let rows = devices.map { device in
            StoredBucketEntry(
                aor: AddressOfRecord(user: ByteString("u\(device.rawValue)"), host: MachineScene.bob.host),
                entry: BucketEntry(
                    callRef: CallRef(rawValue: device.rawValue), caller: ByteString("103"), date: scene.now.date,
                    broughtBy: Caller(hash: 103, isTrusted: true),
                    devices: [device], isOver: true))
        }
        // With the random numbers of this test, each pause is a second longer than the previous one.
        var random: UInt64 = 0
        var ledger = PushLedger(
            settings, restoring: rows,
            random: {
                random += 1000
                return random
            }, log: .silent)
        var (later, actions, due) = (scene, SeenOrders(), [DeviceID]())
        ledger.restored(now: scene.now, into: &actions) { _, _ in true }
        later.pass(.seconds(30))
        while let report = ledger.due(now: later.now, into: &actions) { due.append(report.device) }
        #expect(due == devices)
    }
}

/// Collects what a push ledger tells the engine to do.
private struct SeenOrders: PushOrders {
    private(set) var transmissions: [PushDispatcher.Transmission] = []
    private(set) var credentials: [PushCredentials.Order] = []
    private(set) var records: [TimelineRecord] = []

    var pushes: [PushRequest] { transmissions.map(\.push) }

    mutating func send(_ push: PushDispatcher.Transmission) { transmissions.append(push) }

    mutating func makeCredential(_ order: PushCredentials.Order) { credentials.append(order) }

    mutating func trace(_ changes: [TimelineChange]) {
        records += changes.compactMap { if case .record(let record) = $0 { record } else { nil } }
    }

    mutating func missedCallsChanged(_ changes: [BucketChange], of aor: AddressOfRecord) {}
}
