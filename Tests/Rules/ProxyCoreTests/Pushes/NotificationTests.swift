import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite struct `Notifications that application servers order` {
    private let nobody = AddressOfRecord(user: ByteString("nobody"), host: ByteString("example.net"))

    private func notification(_ bench: EngineBench, life: Duration = .seconds(86_400)) -> PushNotification {
        var notification = PushNotification(expiresAt: bench.now.date + life)
        notification.text = ByteString("hi")
        return notification
    }

    private func order(
        _ bench: EngineBench, for recipients: [NotificationRecipient]? = nil, life: Duration = .seconds(86_400)
    ) throws -> NotificationReceipt {
        try bench.engine.notificationOrdered(
            notification(bench, life: life), for: recipients ?? [.user(EngineBench.bob)], now: bench.now)
    }

    /// Registers a contact of bob at Acrobits, whose mediator accepts notifications that Google does not accept.
    private func registerAtAcrobits(_ bench: EngineBench, _ param: String, _ token: String) {
        let first = bench.receive(
            SIPText.register(
                user: "bob", from: EngineBench.phone, callID: "a1", cseq: 1, branch: "a1",
                contact: "<sip:bob@192.0.2.5;pn-provider=acrobits;pn-param=\(param);pn-prid=\(token)>"))
        _ = bench.commitAll(in: first)
    }

    /// A bench with bob's phone, bob's tablet, and a desk phone without push parameters.
    private func registered(_ change: (inout ProxySettings) -> Void = { _ in }) -> EngineBench {
        let bench = EngineBench(change)
        bench.register()
        _ = bench.pass(.seconds(1))
        bench.register(token: "tok2", callID: "r2")
        return bench
    }

    @Test func `go to all devices of a user, and to no ordinary contact`() throws {
        let bench = registered()
        bench.register(token: nil, callID: "r3")
        let receipt = try order(bench, for: [.user(EngineBench.bob), .user(nobody)])
        #expect(receipt.sent == 2)
        #expect(receipt.skipped == [.ordinaryContact])
        #expect(receipt.absent == [.user(nobody)])
        let actions = bench.take()
        #expect(Set(story(actions)) == ["push hi tok1", "push hi tok2"])
        let pushes = actions.pushes
        #expect(Set(pushes.map(\.id)).count == 2)
        #expect(pushes.allSatisfy { $0.deadline == bench.now.date + .seconds(86_400) })
        let omitted = try #require(actions.records.first)
        #expect(omitted.kind == .notification && omitted.code == receipt.code && omitted.isComplete)
        #expect(omitted.omission == .ordinaryContact)
    }

    @Test func `go to one device, once, also when its user is named too`() throws {
        let bench = registered()
        let device = try #require(bench.targets.first)
        #expect(try order(bench, for: [.device(device.id)]).sent == 1)
        #expect(story(bench.take()) == ["push hi tok2"])
        #expect(try order(bench, for: [.device(device.id), .user(EngineBench.bob)]).sent == 2)
        let unknown = NotificationRecipient.device(DeviceID(rawValue: 7))
        #expect(try order(bench, for: [unknown]).absent == [unknown])
    }

    @Test func `go to nobody if one device could not get it, or there is no room for all`() throws {
        let bench = EngineBench {
            $0.configuredProviders = [.fcm, .acrobits]
            $0.dispatch.notificationLimit = 2
        }
        bench.register()
        registerAtAcrobits(bench, "app.voip&app", "C:calls&O:other")
        do throws(NotificationRefusal) {
            var long = notification(bench)
            long.destinationType = ByteString("url")
            long.destinationContent = ByteString(String(repeating: "x", count: 5000))
            _ = try bench.engine.notificationOrdered(long, for: [.user(EngineBench.bob)], now: bench.now)
            Issue.record("what is too long was taken")
        } catch {
            guard case .payload(let words) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(words.hasPrefix("fcm: ") && words.hasSuffix(" bytes of data"))
        }
        #expect(bench.take().isEmpty)
        #expect(try order(bench).sent == 2)
        let pushes = bench.take().pushes
        #expect(throws: NotificationRefusal.noRoom) { try order(bench) }
        bench.finish(try #require(pushes.first).id)
        #expect(throws: NotificationRefusal.noRoom) { try order(bench) }
        bench.finish(try #require(pushes.last).id)
        #expect(try order(bench).sent == 2)
    }

    @Test func `skip devices whose token carries none`() throws {
        let bench = EngineBench { $0.configuredProviders = [.fcm, .acrobits] }
        bench.register(token: "tok2")
        registerAtAcrobits(bench, "app.voip", "C:calls")
        let receipt = try order(bench)
        #expect(receipt.sent == 1 && receipt.skipped == [.notCarried])
        #expect(story(bench.take()) == ["push hi tok2"])
    }

    @Test func `a dead token removes its contact, a new one is stored, and nothing else happens`() throws {
        let bench = registered()
        _ = try order(bench)
        let pushes = bench.take().pushes
        let dead = try #require(pushes.first { $0.token.prid == ByteString("tok1") })
        let moved = try #require(pushes.first { $0.token.prid == ByteString("tok2") })
        bench.finish(dead.id, .tokenDead(since: nil))
        bench.finish(moved.id, .acceptedWithNewToken(ByteString("tok3")))
        #expect(story(bench.take()).isEmpty)
        #expect(try order(bench).sent == 1)
        #expect(story(bench.take()) == ["push hi tok3"])
        #expect(bench.engine.counters[.tokenDropped] == 1)
    }

    @Test func `a device that registered since keeps its contact`() throws {
        let bench = registered()
        _ = try order(bench)
        let push = try #require(bench.take().pushes.first)
        bench.finish(push.id, .tokenDead(since: bench.now.date + .seconds(-100)))
        #expect(bench.targets.count == 2)
    }

    @Test func `have a share of their own, and use nothing of a call's`() throws {
        let bench = EngineBench {
            $0.call.pushesPerDevice = 3
            $0.notificationsPerDevice = 2
            $0.limits.callerShare = 100
        }
        bench.register()
        for _ in 1...2 { #expect(try order(bench).sent == 1) }
        #expect(try order(bench).skipped == [.deviceLimit])
        _ = bench.take()
        for call in 1...3 { #expect(bench.invite(callID: "c\(call)", branch: "c\(call)").pushIDs.count == 1) }
        _ = bench.pass(.seconds(30))
        #expect(try order(bench).sent == 1)
    }

    @Test func `stop while calls have used up theirs`() throws {
        let bench = EngineBench.registered {
            $0.call.pushesPerDevice = 2
            $0.limits.callerShare = 100
        }
        for call in 1...2 { bench.invite(callID: "c\(call)", branch: "c\(call)") }
        #expect(try order(bench).skipped == [.deviceLimit])
        _ = bench.pass(.seconds(31))
        #expect(try order(bench).sent == 1)
    }

    @Test func `are tried for a while even if they must not be stored`() throws {
        let bench = registered()
        _ = try order(bench, life: .zero)
        #expect(bench.take().pushes.allSatisfy { $0.deadline == bench.now.date + .seconds(30) })
    }

    @Test func `leave a record each, with the one code`() throws {
        let bench = registered()
        let code = try order(bench).code
        let pushes = bench.take().pushes
        #expect(pushes.allSatisfy { $0.code == code })
        for push in pushes { bench.finish(push.id) }
        let records = bench.take().records
        #expect(records.count == 2)
        #expect(
            records.allSatisfy {
                $0.kind == .notification && $0.code == code && $0.user == ByteString("bob")
            })
        #expect(Set(records.map(\.device)).count == 2)
        #expect(records.allSatisfy { $0.answer == .accepted && $0.app == "fcm" })
    }

    @Test func `count as unread until they are read, unless they are silent or shall not`() throws {
        let bench = EngineBench.registered()
        func badge(_ change: (inout PushNotification) -> Void = { _ in }) throws -> (code: PushCode, badge: Int?) {
            var notification = notification(bench)
            change(&notification)
            let receipt = try bench.engine.notificationOrdered(
                notification, for: [.user(EngineBench.bob)], now: bench.now)
            let push = try #require(bench.take().pushes.first)
            bench.finish(push.id)
            return (receipt.code, push.badge)
        }
        let first = try badge()
        #expect(first.badge == 1)
        #expect(try badge().badge == 2)
        #expect(try badge { $0.isSilent = true }.badge == 2)
        #expect(try badge { $0.countsInBadge = false }.badge == 2)
        #expect(try badge { $0.badge = 7 }.badge == 7)
        let device = try #require(bench.targets.first)
        #expect(bench.engine.pushMarked(first.code, .read, by: device.id, now: bench.now) != .unknownDevice)
        #expect(try badge().badge == 3)
    }

    @Test func `a notification that its provider refused does not count as unread`() throws {
        let bench = EngineBench.registered()
        _ = try order(bench)
        let push = try #require(bench.take().pushes.first)
        bench.finish(push.id, .payloadRefused("x"))
        _ = try order(bench)
        #expect(bench.take().pushes.first?.badge == 1)
    }
}
