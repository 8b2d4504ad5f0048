package import Addressing
package import Bytes
import LocationService
package import PushDelivery
package import PushPlanning
package import Registration
package import Timekeeping

/// The recipient of a test push.
package enum TestPushTarget: Hashable, Sendable {
    /// All devices of a user.
    case user(AddressOfRecord)
    /// The device with the given push token; the token may belong to no user of the daemon.
    case token(PushToken)
}

/// The test pushes that one command of an operator causes.
package struct TestPushPlan: Sendable {
    package struct Push: Sendable {
        package let device: DeviceID
        /// The push provider, and the first characters of the push token.
        package let token: String
        package let app: String
        /// The HTTP request to the push provider, without secrets; `nil` if no request is sent.
        package let request: RedactedRequest?
        /// Why the device gets no push; `nil` if the device gets a push.
        package let omission: TimelineRecord.Omission?
    }

    package let code: PushCode
    package fileprivate(set) var pushes: [Push] = []

    /// The number of test pushes that are sent.
    package var sent: Int { pushes.count { $0.omission == nil } }
}

/// Sends test pushes, which show an operator the push provider's answer.
///
/// A test push shows a text on the phone, counts toward the device's limit of notifications, and has a timeline record.
extension ProxyEngine {
    /// Sends a test push to each device of the target, and reports each result as ``ProxyAction/testPushEnded(_:_:)``.
    /// The method returns `nil` if the push queue has no room for all test pushes.
    package func testPushOrdered(_ target: TestPushTarget, _ ticket: TestPushTicket, now: Moment) -> TestPushPlan? {
        var plan = TestPushPlan(code: ledger.newCode())
        let notification = Self.testNotification(now: now)
        switch target {
        case .user(let aor):
            let targets = registrar.bindings.forkTargets(for: aor, now: now.instant)
            guard targets.count <= ledger.dispatcher.notificationRoom else { return nil }
            for target in targets {
                test(notification, target.id, target.pushToken, of: aor, ticket, &plan, now: now) { ledger in
                    guard ledger.mayNotify(target.id, for: nil, now: now.instant) else { return false }
                    ledger.notified(target.id, for: nil, now: now.instant)
                    return true
                }
            }
        case .token(let token):
            guard ledger.dispatcher.notificationRoom > 0 else { return nil }
            let nobody = AddressOfRecord(user: .empty, host: .empty)
            test(notification, .nobody, token, of: nobody, ticket, &plan, now: now) { ledger in
                ledger.admitsTest(of: token, now: now.instant)
            }
        }
        return plan
    }

    /// Sends one test push, unless the push token cannot carry a notification or `admits` returns false.
    private func test(
        _ notification: PushNotification, _ device: DeviceID, _ token: PushToken?, of aor: AddressOfRecord,
        _ ticket: TestPushTicket, _ plan: inout TestPushPlan, now: Moment, admits: (inout PushLedger) -> Bool
    ) {
        guard let token else {
            return leaveOut(.ordinaryContact, notification, device, nil, of: aor, &plan, now: now)
        }
        let request = PushRequest(
            code: plan.code, device: device, token: token, message: .notification(notification),
            badge: ledger.unread.count(of: device), deadline: notification.expiresAt)
        let directory = ledger.dispatcher.directory
        let app = directory.app(for: token).flatMap { directory[$0] }
        guard let app, let sketch = app.redacted(request, now: now.date) else {
            return leaveOut(.notCarried, notification, device, token, of: aor, &plan, now: now)
        }
        guard admits(&ledger) else {
            return leaveOut(.deviceLimit, notification, device, token, of: aor, &plan, now: now)
        }
        let record = ledger.began(
            notification, plan.code, for: device, of: aor, orderedBy: TestPushPlan.orderer, now: now)
        plan.pushes.append(
            TestPushPlan.Push(
                device: device, token: token.description, app: app.name, request: sketch, omission: nil))
        let push = AskedPush(.test(TestPush(ticket)), plan.code, device: device, aor: aor, record: record)
        ledger.send(push, request, now: now, into: &output.actions)
    }

    private func leaveOut(
        _ omission: TimelineRecord.Omission, _ notification: PushNotification, _ device: DeviceID, _ token: PushToken?,
        of aor: AddressOfRecord, _ plan: inout TestPushPlan, now: Moment
    ) {
        ledger.omitted(
            omission, notification, plan.code, for: device, of: aor, orderedBy: TestPushPlan.orderer, now: now,
            into: &output.actions)
        plan.pushes.append(
            TestPushPlan.Push(
                device: device, token: token?.description ?? "", app: token?.provider.rawValue ?? "", request: nil,
                omission: omission))
    }

    private static func testNotification(now: Moment) -> PushNotification {
        var notification = PushNotification(expiresAt: now.date + .seconds(30))
        notification.title = ByteString("Test")
        notification.text = ByteString("This is a test push.")
        notification.countsInBadge = false
        return notification
    }
}

extension TestPushPlan {
    /// The sender's name of test pushes in timeline records.
    package static let orderer = ByteString("push test")
}
