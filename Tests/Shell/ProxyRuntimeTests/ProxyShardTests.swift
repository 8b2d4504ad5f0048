import Routing
import Addressing
import Bytes
import Foundation
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
import Testing
import TestSupport
import Timekeeping

@testable import ProxyRuntime

@Suite("Shard", .timeLimit(.minutes(10)))
struct ProxyShardTests {
    private func cancel(_ invite: [UInt8]) throws -> [UInt8] {
        guard case .request(let request) = MessageReader().read(invite.span, isStream: false) else {
            throw CocoaError(.coderInvalidValue)
        }
        return SIPText.hopRequest("CANCEL", for: request)
    }

    private func callID(_ message: String) -> Substring {
        message.firstRange(of: "Call-ID: ").map { message[$0.upperBound...].prefix { $0 != "\r\n" } } ?? ""
    }

    // MARK: Order

    @Test func `answers leave in the order of the requests that came together`() async throws {
        try await ShardScene.with { scene in
            _ = try await scene.places.udp("phone")
            await scene.places.sendTogether((1...16).map { scene.options($0) }, from: "phone", to: scene.udp)
            var order: [Substring] = []
            for _ in 1...16 { order.append(callID(try await scene.places.message("SIP/2.0 200", at: "phone"))) }
            #expect(order == (1...16).map { "o\($0)" })
        }
    }

    @Test func `the consequences of a name that is already known come after the earlier actions`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            // The phone's socket also serves as the gateway, so that the test sees the order of all messages.
            await scene.bench.run { _ in
                scene.lookUps.known = [ResolvedHop(transport: .udp, endpoint: phone)]
            }
            let invites = (1...2).map { scene.invite($0, at: phone) }
            await scene.places.sendTogether(invites, from: "phone", to: scene.udp)
            var order: [String] = []
            for _ in 1...4 {
                let message = try await scene.places.message("", at: "phone")
                order.append("\(message.prefix { $0 != " " }) \(callID(message))")
            }
            #expect(order == ["SIP/2.0 i1", "SIP/2.0 i2", "INVITE i1", "INVITE i2"])
        }
    }

    @Test func `the kernel has the journal's entry of a call before its consequences are carried out`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            let found = Mailbox<Bool>()
            let folder = scene.folder.path + "-calls"
            await scene.bench.run { _ in
                // The call and the look-up that the call causes happen in the same turn of the loop.
                scene.lookUps.whenAsked = {
                    let files = try? FileManager.default.contentsOfDirectory(atPath: folder)
                    let bytes = (files ?? []).compactMap { FileManager.default.contents(atPath: "\(folder)/\($0)") }
                    found.put(bytes.contains { $0.range(of: Data("Call-ID: i1\r\n".utf8)) != nil })
                }
            }
            await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
            #expect(try await found.next())
        }
    }

    @Test func `keep-alives and STUN get no answer, and the message after them does`() async throws {
        try await ShardScene.with { scene in
            _ = try await scene.places.udp("phone")
            let noise: [[UInt8]] = [
                [], [13, 10], [13, 10, 13, 10], [0], [0, 0, 0, 0], [0, 1, 0, 0, 33, 18, 164, 66],
            ]
            await scene.places.sendTogether(noise + [scene.options(1)], from: "phone", to: scene.udp)
            #expect(callID(try await scene.places.message("", at: "phone")) == "o1")
            // The daemon answers the packets of a port in their order, so an answer to an earlier packet would come
            // first.
            await scene.places.send(scene.options(2), from: "phone", to: scene.udp)
            #expect(callID(try await scene.places.message("", at: "phone")) == "o2")
        }
    }

    @Test func `the engine's deadline is reported to it, even without any other event`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            let gateway = try await scene.places.udp("gateway")
            await scene.bench.run { _ in
                scene.lookUps.known = [ResolvedHop(transport: .udp, endpoint: gateway)]
            }
            await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
            let first = try await scene.places.message("INVITE ", at: "gateway")
            #expect(try await scene.places.message("INVITE ", at: "gateway") == first)
        }
    }

    // MARK: Commits

    @Test func `a REGISTER is answered when it is on the disk, and refused when it could not be written`() async throws
    {
        try await ShardScene.with { scene in
            _ = try await scene.places.udp("phone")
            await scene.register("phone")
            _ = try await scene.places.message("SIP/2.0 200", at: "phone")
            #expect(try scene.folder.rowCounts()["binding"] == 1)
            // The test removes the database file, so that a change that is still written would be lost at the next
            // start.
            try FileManager.default.removeItem(atPath: scene.folder.path)
            await scene.register("phone", 2, contact: "<sip:bob@127.0.0.1:10>")
            let refusal = try await scene.places.message("SIP/2.0 ", at: "phone")
            #expect(refusal.hasPrefix("SIP/2.0 503") && refusal.contains("\r\nRetry-After: "))
            #expect(await scene.bindingCount == 1)
        }
    }

    @Test func `a store that accepts no more changes refuses the REGISTER, and calls continue`() async throws {
        try await ShardScene.with { scene in
            _ = try await scene.places.udp("phone")
            // A closed store refuses changes, like a store whose queue is full.
            await scene.bench.run { _ in scene.store.close() }
            await scene.places.sendTogether([scene.options(1)], from: "phone", to: scene.udp)
            _ = try await scene.places.message("SIP/2.0 200", at: "phone")
            await scene.register("phone")
            let refusal = try await scene.places.message("SIP/2.0 ", at: "phone")
            #expect(refusal.hasPrefix("SIP/2.0 503"))
            #expect(await scene.bindingCount == 0)
        }
    }

    // MARK: Names

    @Test func `a call to a name without addresses fails at once`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
            #expect(try await scene.lookUps.asked.next() == "gateway.test")
            await scene.bench.run { _ in scene.lookUps.answer(0, with: []) }
            _ = try await scene.places.message("SIP/2.0 100", at: "phone")
            #expect(try await scene.places.message("SIP/2.0 ", at: "phone").hasPrefix("SIP/2.0 5"))
        }
    }

    @Test func `the next of several addresses is tried if no server listens at the first`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            let gateway = try await scene.places.udp("gateway")
            let nobody = try await scene.places.freePort()
            await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
            _ = try await scene.lookUps.asked.next()
            await scene.bench.run { _ in
                scene.lookUps.answer(
                    0,
                    with: [
                        ResolvedHop(transport: .tcp, endpoint: nobody),
                        ResolvedHop(transport: .udp, endpoint: gateway),
                    ])
            }
            #expect(callID(try await scene.places.message("INVITE ", at: "gateway")) == "i1")
            // The second host has only the server that refuses connections, so the caller gets the final response
            // before any timeout.
            await scene.places.send(scene.invite(2, at: phone), from: "phone", to: scene.udp)
            _ = try await scene.lookUps.asked.next()
            await scene.bench.run { _ in
                scene.lookUps.answer(1, with: [ResolvedHop(transport: .tcp, endpoint: nobody)])
            }
            var answer = ""
            while callID(answer) != "i2" || answer.hasPrefix("SIP/2.0 100") {
                answer = try await scene.places.message("SIP/2.0 ", at: "phone")
            }
            #expect(answer.hasPrefix("SIP/2.0 5"))
        }
    }

    @Test func `a connection that may not be made fails the call at once`() async throws {
        var limits = FlowLimits()
        limits.connections = 0
        try await ShardScene.with(limits: limits) { scene in
            let phone = try await scene.places.udp("phone")
            let gateway = try await scene.places.tcp("gateway")
            await scene.bench.run { _ in
                scene.lookUps.known = [ResolvedHop(transport: .tcp, endpoint: gateway)]
            }
            await scene.places.send(scene.invite(1, at: phone), from: "phone", to: scene.udp)
            _ = try await scene.places.message("SIP/2.0 100", at: "phone", never: ["gateway"])
            let end = try await scene.places.message("SIP/2.0 ", at: "phone", never: ["gateway"])
            #expect(end.hasPrefix("SIP/2.0 5"))
        }
    }

    @Test func `two calls that wait for the same name continue when each is answered, and only once`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            let gateway = try await scene.places.udp("gateway")
            let other = try await scene.places.udp("other")
            await scene.places.sendTogether(
                (1...2).map { scene.invite($0, at: phone) }, from: "phone", to: scene.udp)
            for _ in 1...2 { _ = try await scene.lookUps.asked.next() }
            await scene.bench.run { _ in
                scene.lookUps.answer(1, with: [ResolvedHop(transport: .udp, endpoint: gateway)])
                scene.lookUps.answer(1, with: [ResolvedHop(transport: .udp, endpoint: other)])
                scene.lookUps.answer(0, with: [ResolvedHop(transport: .udp, endpoint: gateway)])
            }
            for call in ["i2", "i1"] {
                #expect(callID(try await scene.places.message("INVITE ", at: "gateway", never: ["other"])) == call)
            }
        }
    }

    @Test func `an address that is found after the caller has gone is not used`() async throws {
        try await ShardScene.with { scene in
            let phone = try await scene.places.udp("phone")
            let gateway = try await scene.places.udp("gateway")
            let invite = scene.invite(1, at: phone)
            await scene.places.send(invite, from: "phone", to: scene.udp)
            _ = try await scene.lookUps.asked.next()
            await scene.places.send(try cancel(invite), from: "phone", to: scene.udp)
            _ = try await scene.places.message("SIP/2.0 487", at: "phone")
            await scene.bench.run { _ in
                scene.lookUps.answer(0, with: [ResolvedHop(transport: .udp, endpoint: gateway)])
            }
            await scene.places.send(scene.invite(2, at: phone), from: "phone", to: scene.udp)
            _ = try await scene.lookUps.asked.next()
            await scene.bench.run { _ in
                scene.lookUps.answer(1, with: [ResolvedHop(transport: .udp, endpoint: gateway)])
            }
            #expect(callID(try await scene.places.message("", at: "gateway")) == "i2")
        }
    }

    // MARK: Pushes

    @Test func `a credential that is made within its action is reported to the engine after the actions`() async throws
    {
        try await ShardScene.with { scene in
            _ = try await scene.places.udp("phone")
            let token = String(repeating: "ab", count: 32)
            await scene.register(
                "phone", contact: "<sip:bob@127.0.0.1:9;pn-provider=apns;pn-param=T.app;pn-prid=\(token)>")
            _ = try await scene.places.message("SIP/2.0 200", at: "phone")
            let hasLeft = Mailbox<Bool>()
            await scene.bench.run { _ in
                scene.push.happened = { event in
                    scene.shard.assumeIsolated { shard in
                        shard.pushHappened(event)
                        hasLeft.put(shard.engine.timeline.underWay { $0.steps.sent != nil }.count == 1)
                    }
                }
            }
            let (sent, left) = await scene.door.ask(.user(ShardScene.bob)) { engine, now in
                var notification = PushNotification(expiresAt: now.date + .seconds(60))
                notification.text = ByteString("hi")
                let receipt = try? engine.notificationOrdered(notification, for: [.user(ShardScene.bob)], now: now)
                return (receipt?.sent, engine.timeline.underWay { $0.steps.sent != nil }.count)
            }
            #expect(sent == 1 && left == 0)
            #expect(try await hasLeft.next() == false)
            #expect(
                await scene.door.ask(.everything) { engine, _ in
                    engine.timeline.underWay { $0.steps.sent != nil }.count
                } == 1)
        }
    }

    @Test func `the question whether a token can be pushed is answered`() async throws {
        try await ShardScene.with { scene in
            // The settings have no Google account, and Apple's token for calls cannot carry other pushes.
            #expect(await scene.door.canBePushed(token(.fcm, "token-1")) == false)
            let calls = PushToken(
                provider: .apns, param: ByteString("T.app.voip"), prid: ByteString(String(repeating: "ab", count: 32)))
            #expect(await scene.door.canBePushed(calls))
        }
    }

    // MARK: Reports

    @Test(arguments: [true, false])
    func `two reports are processed at once, the others follow in order, and each is answered once`(
        isWritable: Bool
    ) async throws {
        try await ShardScene.with { scene in
            let begun = Mailbox<(number: Int, underWay: Int)>()
            let told = Mailbox<(number: Int, result: ReportResult)>()
            await scene.bench.run { bench in
                if !isWritable { scene.store.close() }
                for number in 1...5 {
                    bench.loop.startTask { _ in
                        let device = ReportedDevice(token: token(.fcm, "token-\(number)"), label: .empty)
                        let aor = AddressOfRecord(user: ByteString("u\(number)"), host: ByteString("example.net"))
                        let result = await scene.door.report(of: aor) { engine, ticket, now in
                            begun.put((number, scene.shard.assumeIsolated { $0.waiters.reporters.count }))
                            engine.deviceReported(device, of: aor, ticket, now: now)
                        }
                        told.put((number, result))
                    }
                }
            }
            for number in 1...5 {
                let next = try await begun.next()
                #expect(next.number == number && (number > 2 || next.underWay == number) && next.underWay <= 2)
            }
            var numbers = Set<Int>()
            for _ in 1...5 {
                let next = try await told.next()
                #expect(next.result == (isWritable ? .done(1) : .unavailable))
                #expect(numbers.insert(next.number).inserted)
            }
            #expect(await scene.bindingCount == (isWritable ? 5 : 0))
        }
    }
}
