import Addressing
import Bytes
import PushDelivery
import Telemetry
import Testing
import Timekeeping

/// Drives a dispatcher: it collects the dispatcher's orders, and reports the outcomes that the test chooses.
final class Desk {
    let dispatcher: PushDispatcher
    private(set) var now = Moment(instant: Instant(nanoseconds: 0), date: sampleDate)
    /// The transmissions that the dispatcher has ordered, and that the test has not taken yet.
    private(set) var sent: [PushDispatcher.Transmission] = []
    private(set) var wanted: [PushCredentials.Order] = []
    private(set) var told: [PushID: [PushStep]] = [:]
    private var actions: [PushDispatcher.Action] = []

    /// Creates a dispatcher. The settings need a signed token for Apple, a fetched token for Google, and a signed token
    /// for each Web Push server. Pushes to Apple's sandbox need no credential.
    init(_ settings: PushSettings = .sample) {
        let directory = PushDirectory(settings)
        let sources = directory.apps.map { app -> PushCredentials.Source in
            switch app.provider {
            case .apns: .made(0)
            case .fcm: .made(1)
            case .webPush: .made(2)
            case .apnsDevelopment, .acrobits, .http, .ruStore, .hms: .none
            }
        }
        dispatcher = PushDispatcher(
            DispatchSetup(directory, PushCredentials(sources, kinds: [.apple, .accessToken, .webPush])), log: .silent)
    }

    private func run() {
        dispatcher.takeActions(into: &actions)
        while !actions.isEmpty {
            for action in actions {
                switch action {
                case .tell(let id, let step): told[id, default: []].append(step)
                case .makeCredential(let order): wanted.append(order)
                case .send(let transmission): sent.append(transmission)
                }
            }
            dispatcher.takeActions(into: &actions)
        }
    }

    func ask(
        _ number: UInt64, to token: PushToken = token(.apnsDevelopment, wellFormed.string),
        _ message: PushMessage = incomingCall(),
        life: Duration = .seconds(30)
    ) {
        dispatcher.pushAsked(
            PushRequest(
                id: PushID(rawValue: number), code: sampleCode, device: DeviceID(rawValue: number), token: token,
                message: message, badge: 1, deadline: now.date + life), now: now)
        run()
    }

    func cancel(_ number: UInt64) {
        dispatcher.cancelled(PushID(rawValue: number), now: now)
        run()
    }

    func make(_ order: PushCredentials.Order, _ value: String, life: Duration? = nil) {
        dispatcher.happened(.credentialMade(order, value, life: life), now: now)
        run()
    }

    func fail(_ order: PushCredentials.Order, _ outcome: PushOutcome, problem: String? = nil) {
        dispatcher.happened(.credentialFailed(order, outcome, problem: problem), now: now)
        run()
    }

    func answer(
        _ transmission: PushDispatcher.Transmission, _ status: Int, body: String = "", retryAfter: String? = nil,
        date: String? = nil
    ) {
        let answer = ProviderAnswer(status: status, retryAfter: retryAfter, date: date, body: Array(body.utf8))
        dispatcher.happened(.answered(transmission, answer, after: .milliseconds(50)), now: now)
        run()
    }

    func failToReach(_ transmission: PushDispatcher.Transmission) {
        dispatcher.happened(.unanswered(transmission, .retry(after: nil), "not there"), now: now)
        run()
    }

    /// Reports that the service could not make a request.
    func refuse(_ transmission: PushDispatcher.Transmission) {
        dispatcher.happened(.notSent(transmission, .credentialsRefused("no key")), now: now)
        run()
    }

    func wait(_ duration: Duration) {
        now = Moment(instant: now.instant + duration, date: now.date + duration)
        dispatcher.timePassed(now: now)
        run()
    }

    /// Moves the clock to the dispatcher's next deadline.
    ///
    /// - Returns: the time until the next deadline.
    func waitForDeadline() -> Duration? {
        guard let deadline = dispatcher.nextDeadline else { return nil }
        let pause = deadline - now.instant
        wait(pause)
        return pause
    }

    func pause(_ provider: PushProvider) {
        dispatcher.pause(provider, now: now)
        run()
    }

    func takeSent() -> [PushDispatcher.Transmission] {
        defer { sent = [] }
        return sent
    }

    func takeWanted() -> [PushCredentials.Order] {
        defer { wanted = [] }
        return wanted
    }

    func outcomes() -> [UInt64: PushOutcome] {
        var all: [UInt64: PushOutcome] = [:]
        while let next = dispatcher.nextOutcome() { all[next.id.rawValue] = next.outcome }
        return all
    }

    func steps(_ number: UInt64) -> [PushStep] { told[PushID(rawValue: number)] ?? [] }

    func report(_ app: String) -> PushAppReport {
        dispatcher.reports.first { $0.app.name == app }?.report ?? PushAppReport()
    }
}

func numbers(_ sent: [PushDispatcher.Transmission]) -> [UInt64] { sent.map(\.push.id.rawValue) }

private func settings(requests: Int, queue: Int = 20_000) -> PushSettings {
    var settings = PushSettings.sample
    settings.apns.limits.requests = requests
    settings.apns.limits.queue = queue
    return settings
}

private let iPhone = token(.apns, wellFormed.string)

private let sampleNotification: PushMessage = {
    var notification = PushNotification(expiresAt: sampleDate + .seconds(86_400))
    notification.text = ByteString("hi")
    return .notification(notification)
}()

@Suite("Dispatcher of pushes")
struct PushDispatcherTests {
    @Test func `an accepted push is reported step by step, and its outcome once`() throws {
        let desk = Desk()
        desk.ask(1)
        let sent = desk.takeSent()
        #expect(numbers(sent) == [1])
        #expect(desk.outcomes().isEmpty)
        desk.answer(try #require(sent.first), 200)
        #expect(desk.outcomes() == [1: .accepted(nil)])
        #expect(desk.outcomes().isEmpty)
        #expect(
            desk.steps(1) == [
                .queued(app: "apns.dev"), .sent, .answered(.accepted(nil), status: 200, problem: nil),
                .finished(.accepted(nil)),
            ])
        #expect(desk.report("apns.dev").accepted == 1 && desk.report("apns.dev").sent == 1)
        #expect(desk.dispatcher.nextDeadline == nil)
    }

    @Test func `a token that belongs to no app is refused at once`() {
        var settings = PushSettings.sample
        settings.fcm.enabled = false
        let desk = Desk(settings)
        desk.ask(1, to: token(.fcm, "T"))
        #expect(desk.sent.isEmpty)
        #expect(desk.steps(1) == [.refused(.noApp), .finished(.retry(after: nil))])
        #expect(desk.outcomes() == [1: .retry(after: nil)])
        #expect(desk.dispatcher.figures[.pushWithoutApp] == 1)
    }

    @Test func `a push that cannot be rendered ends, and the next has its place`() {
        var settings = PushSettings.sample
        settings.apns.limits.requests = 1
        let desk = Desk(settings)
        desk.ask(1, to: token(.apns, "\(wellFormed.string):voip"), missedCalls([("103", 1)]))
        desk.ask(2, to: iPhone)
        for order in desk.takeWanted() { desk.make(order, "bearer a") }
        #expect(numbers(desk.takeSent()) == [2])
        #expect(desk.outcomes() == [1: .noSuitableToken])
    }

    @Test func `a request that cannot be made ends its push without having been sent`() throws {
        let desk = Desk(settings(requests: 1))
        desk.ask(1)
        desk.ask(2)
        desk.refuse(try #require(desk.takeSent().first))
        #expect(numbers(desk.takeSent()) == [2])
        #expect(desk.outcomes() == [1: .credentialsRefused("no key")])
    }

    @Test(
        arguments: [
            (0, nil), (59, nil), (-59, nil), (60, ": this machine's clock is 60 s behind the provider's"),
            (7200, ": this machine's clock is 7200 s behind the provider's"),
            (-90, ": this machine's clock is 90 s ahead of the provider's"),
        ] as [(Int64, String?)])
    func `if the provider's clock differs, the report of a refused credential mentions it`(
        seconds: Int64, words: String?
    ) throws {
        let desk = Desk()
        desk.ask(1)
        let theirs = desk.now.date + .seconds(seconds)
        desk.answer(
            try #require(desk.takeSent().first), 403, body: #"{"reason":"InvalidProviderToken"}"#,
            date: theirs.civil.headerText)
        #expect(desk.outcomes() == [1: .credentialsRefused("InvalidProviderToken\(words ?? "")")])
    }

    @Test(arguments: [nil, "", "yesterday", "Sat, 99 Nov 2026 10:12:03 GMT"] as [String?])
    func `if the provider sends no date, the clock is not mentioned`(date: String?) throws {
        let desk = Desk()
        desk.ask(1)
        desk.answer(
            try #require(desk.takeSent().first), 403, body: #"{"reason":"InvalidProviderToken"}"#, date: date)
        #expect(desk.outcomes() == [1: .credentialsRefused("InvalidProviderToken")])
    }

    @Test func `for errors other than credentials, the clock is not blamed`() throws {
        let desk = Desk()
        desk.ask(1)
        desk.answer(
            try #require(desk.takeSent().first), 400, body: #"{"reason":"DeviceTokenNotForTopic"}"#,
            date: "Thu, 01 Jan 1970 00:00:10 GMT")
        guard case .foreignToken(let reason)? = desk.outcomes()[1] else {
            Issue.record("\(desk.outcomes())")
            return
        }
        #expect(!reason.contains("clock"))
    }

    // MARK: Tries

    @Test func `the provider's Retry-After is kept, and the push is tried again`() throws {
        let desk = Desk()
        desk.ask(1)
        desk.answer(try #require(desk.takeSent().first), 503, retryAfter: "7")
        let pause = try #require(desk.waitForDeadline())
        #expect(pause >= .seconds(7) && pause < .seconds(8))
        let again = desk.takeSent()
        #expect(numbers(again) == [1])
        #expect(desk.report("apns.dev").retried == 1)
        desk.answer(try #require(again.first), 200)
        #expect(desk.outcomes() == [1: .accepted(nil)])
    }

    @Test func `no attempt comes after the push's deadline`() throws {
        let desk = Desk()
        desk.ask(1, life: .seconds(5))
        desk.answer(try #require(desk.takeSent().first), 503, retryAfter: "7")
        #expect(desk.outcomes() == [1: .retry(after: .seconds(7))])
        #expect(desk.dispatcher.nextDeadline == nil)
    }

    @Test func `a turn after the deadline sends nothing, and lets the next push go`() throws {
        let desk = Desk(settings(requests: 1))
        desk.ask(1)
        desk.ask(2, life: .seconds(1))
        desk.ask(3)
        desk.wait(.seconds(2))
        desk.answer(try #require(desk.takeSent().first), 200)
        #expect(numbers(desk.takeSent()) == [3])
        #expect(desk.outcomes() == [1: .accepted(nil), 2: .retry(after: nil)])
    }

    // MARK: Withdrawn pushes

    @Test func `a waiting push is withdrawn, and is not sent`() throws {
        let desk = Desk(settings(requests: 1))
        for number in 1...3 { desk.ask(UInt64(number)) }
        desk.cancel(2)
        desk.answer(try #require(desk.takeSent().first), 200)
        #expect(numbers(desk.takeSent()) == [3])
        #expect(desk.steps(2) == [.queued(app: "apns.dev"), .withdrawn])
        #expect(desk.outcomes() == [1: .accepted(nil)])
        #expect(desk.report("apns.dev").withdrawn == 1)
    }

    @Test func `a push in flight keeps its place until the provider has answered, and the answer counts`() throws {
        let desk = Desk(settings(requests: 1))
        desk.ask(1)
        desk.ask(2)
        let first = try #require(desk.takeSent().first)
        desk.cancel(1)
        desk.cancel(1)
        #expect(desk.takeSent().isEmpty)
        desk.answer(first, 200)
        #expect(numbers(desk.takeSent()) == [2])
        #expect(desk.outcomes() == [1: .accepted(nil)])
        #expect(desk.report("apns.dev").accepted == 1 && desk.report("apns.dev").withdrawn == 0)
        // If the provider answers the same transmission again, the second answer has no effect.
        desk.answer(first, 200)
        #expect(desk.outcomes().isEmpty)
    }

    @Test func `a push that is withdrawn in flight is not tried again`() throws {
        let desk = Desk()
        desk.ask(1)
        let first = try #require(desk.takeSent().first)
        desk.cancel(1)
        desk.answer(first, 503)
        desk.wait(.seconds(10))
        #expect(desk.takeSent().isEmpty && desk.outcomes() == [1: .retry(after: nil)])
    }

    @Test func `a credential that was refused to a withdrawn push is renewed for the next one`() throws {
        let desk = Desk()
        desk.ask(1, to: iPhone)
        desk.make(try #require(desk.takeWanted().first), "bearer a")
        let first = try #require(desk.takeSent().first)
        desk.cancel(1)
        // The test waits for more than a minute, because the dispatcher renews no credential that is less than a minute
        // old.
        desk.wait(.seconds(61))
        desk.answer(first, 403, body: #"{"reason":"ExpiredProviderToken"}"#)
        #expect(desk.outcomes() == [1: .renewCredential] && desk.takeSent().isEmpty)
        desk.ask(2, to: iPhone)
        desk.make(try #require(desk.takeWanted().first), "bearer b")
        #expect(try #require(desk.takeSent().first).credential == "bearer b")
    }

    @Test func `a pausing push is withdrawn, and is not tried again`() throws {
        let desk = Desk()
        desk.ask(1)
        desk.answer(try #require(desk.takeSent().first), 503)
        desk.cancel(1)
        desk.wait(.seconds(10))
        #expect(desk.takeSent().isEmpty && desk.outcomes().isEmpty)
        #expect(desk.dispatcher.nextDeadline == nil)
    }

    @Test func `a push that waits for a credential is withdrawn`() throws {
        let desk = Desk()
        desk.ask(1, to: iPhone)
        desk.ask(2, to: iPhone)
        desk.cancel(1)
        desk.make(try #require(desk.takeWanted().first), "bearer a")
        #expect(numbers(desk.takeSent()) == [2])
        #expect(desk.outcomes().isEmpty)
    }

    @Test func `an outcome that is not reported yet is reported although the push was withdrawn`() {
        let desk = Desk(settings(requests: 1, queue: 0))
        desk.ask(1)
        desk.ask(2)
        desk.cancel(2)
        #expect(desk.outcomes() == [2: .retry(after: nil)])
    }

    // MARK: Queues and shares

    @Test func `a limited number is in flight, a limited number waits, and the next is refused`() throws {
        let desk = Desk(settings(requests: 2, queue: 1))
        for number in 1...4 { desk.ask(UInt64(number)) }
        let sent = desk.takeSent()
        #expect(numbers(sent) == [1, 2])
        #expect(desk.outcomes() == [4: .retry(after: nil)])
        #expect(desk.steps(4).contains(.refused(.queueFull)))
        #expect(desk.dispatcher.figures[.pushesInFlight] == 2 && desk.dispatcher.figures[.pushQueue] == 1)
        desk.answer(try #require(sent.first), 200)
        #expect(numbers(desk.takeSent()) == [3])
    }

    @Test func `pausing pushes count as well: at most twice the room of servers and queues is accepted`() throws {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.apns.topics = ["com.example.phone"]
        settings.apns.limits.requests = 1
        settings.apns.limits.queue = 1
        let desk = Desk(settings)
        for number in 1...8 {
            desk.ask(UInt64(number))
            desk.failToReach(try #require(desk.takeSent().first))
        }
        desk.ask(9)
        #expect(desk.steps(9) == [.refused(.queueFull), .finished(.retry(after: nil))])
        #expect(desk.outcomes() == [9: .retry(after: nil)])
        // Notifications have a separate limit, so calls do not use up the limit of notifications.
        desk.ask(10, sampleNotification)
        #expect(desk.steps(10).first == .queued(app: "apns.dev"))
    }

    @Test func `notifications take a quarter of the places, and calls pass them`() throws {
        let desk = Desk(settings(requests: 4))
        for number in 1...3 { desk.ask(UInt64(number), sampleNotification) }
        let first = desk.takeSent()
        #expect(numbers(first) == [1])
        desk.ask(4)
        #expect(numbers(desk.takeSent()) == [4])
        desk.answer(try #require(first.first), 200)
        #expect(numbers(desk.takeSent()) == [2])
        #expect(desk.dispatcher.notificationRoom == 10_000 - 2)
    }

    @Test func `a provider that is down gets only a probe every five seconds`() throws {
        let desk = Desk(settings(requests: 1))
        for number in 1...5 {
            desk.ask(UInt64(number))
            desk.failToReach(try #require(desk.takeSent().last))
            desk.cancel(UInt64(number))
            desk.wait(.milliseconds(100))
        }
        for number in 6...7 { desk.ask(UInt64(number)) }
        #expect(desk.takeSent().isEmpty)
        #expect(!desk.report("apns.dev").isReachable)
        #expect(desk.waitForDeadline() == .milliseconds(4900))
        let probe = desk.takeSent()
        #expect(numbers(probe) == [6])
        desk.answer(try #require(probe.first), 200)
        #expect(numbers(desk.takeSent()) == [7])
        #expect(desk.report("apns.dev").isReachable)
    }

    @Test func `a server that is down delays only its own pushes`() throws {
        let desk = Desk(settings(requests: 1))
        for number in 1...2 { desk.ask(UInt64(number)) }
        desk.ask(3, to: iPhone)
        desk.make(try #require(desk.takeWanted().first), "bearer a")
        #expect(numbers(desk.takeSent()) == [1, 3])
    }

    // MARK: Credentials

    @Test func `one new credential serves all waiting pushes and later pushes`() throws {
        let desk = Desk()
        for number in 1...3 { desk.ask(UInt64(number), to: token(.fcm, "T")) }
        let orders = desk.takeWanted()
        #expect(orders.count == 1 && desk.sent.isEmpty)
        desk.make(try #require(orders.first), "Bearer x", life: .seconds(3600))
        desk.ask(4, to: token(.fcm, "T"))
        let sent = desk.takeSent()
        #expect(numbers(sent) == [1, 2, 3, 4])
        #expect(sent.allSatisfy { $0.credential == "Bearer x" })
        #expect(desk.wanted.isEmpty)
    }

    @Test func `a failed credential ends all its pushes, until it is time to try again`() throws {
        let desk = Desk()
        for number in 1...2 { desk.ask(UInt64(number), to: token(.fcm, "T")) }
        desk.fail(try #require(desk.takeWanted().first), .credentialsRefused("no"), problem: "Google says no")
        desk.ask(3, to: token(.fcm, "T"))
        #expect(
            desk.outcomes() == [
                1: .credentialsRefused("no"), 2: .credentialsRefused("no"), 3: .credentialsRefused("no"),
            ])
        let step = PushStep.answered(.credentialsRefused("no"), status: nil, problem: "Google says no")
        for number in 1...3 { #expect(desk.steps(UInt64(number)).contains(step)) }
        #expect(desk.wanted.isEmpty && desk.sent.isEmpty)
        // After a refused credential, the dispatcher sends Google no request for a minute.
        desk.wait(.seconds(59))
        desk.ask(4, to: token(.fcm, "T"))
        #expect(desk.wanted.isEmpty)
        desk.wait(.seconds(1))
        desk.ask(5, to: token(.fcm, "T"))
        desk.make(try #require(desk.takeWanted().first), "Bearer x", life: .seconds(3600))
        #expect(numbers(desk.takeSent()) == [5])
    }

    @Test func `a push whose credential could not be fetched now is tried again`() throws {
        let desk = Desk()
        desk.ask(1, to: token(.fcm, "T"))
        desk.fail(try #require(desk.takeWanted().first), .retry(after: nil), problem: "not reached")
        while desk.wanted.isEmpty, desk.waitForDeadline() != nil {}
        desk.make(try #require(desk.takeWanted().first), "Bearer x", life: .seconds(3600))
        #expect(numbers(desk.takeSent()) == [1])
    }

    @Test func `an outdated credential that the provider refuses is renewed, and the push is sent at once`() throws {
        let desk = Desk()
        desk.ask(1, to: iPhone)
        desk.make(try #require(desk.takeWanted().first), "bearer old")
        desk.answer(try #require(desk.takeSent().first), 200)
        desk.wait(.seconds(600))
        desk.ask(2, to: iPhone)
        desk.answer(try #require(desk.takeSent().first), 403, body: #"{"reason":"ExpiredProviderToken"}"#)
        desk.make(try #require(desk.takeWanted().first), "bearer new")
        let again = try #require(desk.takeSent().first)
        #expect(again.credential == "bearer new")
        desk.answer(again, 403, body: #"{"reason":"ExpiredProviderToken"}"#)
        #expect(desk.outcomes()[2] == .credentialsRefused("the credential was refused again"))
    }

    @Test func `if a new credential is refused as outdated, a wrong clock is named`() throws {
        let desk = Desk()
        desk.ask(1, to: iPhone)
        desk.make(try #require(desk.takeWanted().first), "bearer old")
        desk.answer(try #require(desk.takeSent().first), 200)
        desk.wait(.seconds(600))
        desk.ask(2, to: iPhone)
        let (body, date) = (
            #"{"reason":"ExpiredProviderToken"}"#, (desk.now.date + .seconds(86_400)).civil.headerText
        )
        desk.answer(try #require(desk.takeSent().first), 403, body: body, date: date)
        #expect(desk.outcomes()[2] == nil)
        desk.make(try #require(desk.takeWanted().first), "bearer new")
        desk.answer(try #require(desk.takeSent().first), 403, body: body, date: date)
        guard case .credentialsRefused(let reason)? = desk.outcomes()[2] else {
            Issue.record("\(desk.outcomes())")
            return
        }
        #expect(reason == "the credential was refused again: this machine's clock is 86400 s behind the provider's")
    }

    @Test func `credentials are fetched at the start, and again before their end`() throws {
        let desk = Desk()
        desk.dispatcher.started(now: desk.now)
        desk.wait(.zero)
        desk.make(try #require(desk.takeWanted().first), "Bearer a", life: .seconds(3600))
        #expect(desk.waitForDeadline() == .seconds(3300))
        let order = try #require(desk.takeWanted().first)
        desk.ask(1, to: token(.fcm, "T"))
        #expect(desk.takeSent().first?.credential == "Bearer a")
        desk.make(order, "Bearer b", life: .seconds(3600))
        desk.ask(2, to: token(.fcm, "T"))
        #expect(desk.takeSent().first?.credential == "Bearer b")
    }

    @Test func `web push has a credential for each server, and keeps it for hours`() throws {
        let desk = Desk()
        func subscription(_ server: String) -> PushToken { token(.webPush, "https://\(server)/x") }
        desk.ask(1, to: subscription("updates.push.services.mozilla.com"))
        desk.ask(2, to: subscription("updates.push.services.mozilla.com"))
        desk.ask(3, to: subscription("fcm.googleapis.com"))
        let orders = desk.takeWanted()
        #expect(orders.map(\.origin) == ["https://updates.push.services.mozilla.com", "https://fcm.googleapis.com"])
        for order in orders { desk.make(order, "vapid \(order.origin ?? "")") }
        let sent = desk.takeSent()
        #expect(numbers(sent) == [1, 2, 3])
        #expect(sent.map(\.credential) == [orders[0], orders[0], orders[1]].map { "vapid \($0.origin ?? "")" })
        #expect(Set(sent.map(\.server)).count == 2)
        desk.wait(.seconds(12 * 3600))
        desk.ask(4, to: subscription("fcm.googleapis.com"))
        #expect(desk.takeWanted() == [orders[1]])
    }
}

@Suite("Paused providers")
struct PausedProviderTests {
    @Test func `nothing is sent to a provider that is paused, until it is resumed`() {
        let desk = Desk()
        desk.pause(.apnsDevelopment)
        desk.ask(1)
        #expect(desk.takeSent().isEmpty && desk.dispatcher.nextDeadline == nil)
        #expect(desk.steps(1) == [.refused(.paused), .finished(.retry(after: nil))])
        #expect(desk.outcomes() == [1: .retry(after: nil)])
        desk.ask(2, to: token(.acrobits, wellFormed.string, param: "a"))
        #expect(numbers(desk.takeSent()) == [2])
        desk.dispatcher.resume(.apnsDevelopment)
        desk.ask(3)
        #expect(numbers(desk.takeSent()) == [3])
    }

    @Test func `pushes that wait for their turn, a credential or another try end`() throws {
        let desk = Desk(settings(requests: 2))
        desk.ask(1, to: iPhone)
        let order = try #require(desk.takeWanted().first)
        desk.pause(.apns)
        desk.make(order, "bearer a")
        #expect(desk.takeSent().isEmpty)
        #expect(desk.outcomes() == [1: .retry(after: nil)])
        desk.dispatcher.resume(.apns)
        desk.ask(2, to: iPhone)
        desk.failToReach(try #require(desk.takeSent().first))
        for number in 3...6 { desk.ask(UInt64(number), to: iPhone) }
        let sent = desk.takeSent()
        #expect(numbers(sent) == [3, 4])
        desk.pause(.apns)
        // Five pushes are unfinished: two wait in the queue, one pauses before its next attempt, and two are in flight.
        #expect(Set(desk.outcomes().keys) == [2, 5, 6])
        for transmission in sent { desk.answer(transmission, 200) }
        #expect(desk.takeSent().isEmpty)
        #expect(desk.outcomes() == [3: .accepted(nil), 4: .accepted(nil)])
        desk.dispatcher.resume(.apns)
        desk.ask(7, to: iPhone)
        #expect(numbers(desk.takeSent()) == [7])
    }

    @Test func `a request in flight has no further try`() throws {
        let desk = Desk()
        desk.ask(1)
        let sent = desk.takeSent()
        desk.pause(.apnsDevelopment)
        desk.failToReach(try #require(sent.first))
        _ = desk.waitForDeadline()
        #expect(desk.takeSent().isEmpty)
        #expect(desk.outcomes() == [1: .retry(after: nil)])
    }

    @Test func `notifications at the gate end as well, and the gate opens again`() throws {
        let desk = Desk(settings(requests: 4))
        for number in 1...3 { desk.ask(UInt64(number), to: iPhone, sampleNotification) }
        for order in desk.takeWanted() { desk.make(order, "bearer a") }
        let sent = desk.takeSent()
        #expect(numbers(sent) == [1])
        desk.pause(.apns)
        #expect(Set(desk.outcomes().keys) == [2, 3])
        desk.answer(try #require(sent.first), 200)
        desk.dispatcher.resume(.apns)
        desk.ask(4, to: iPhone, sampleNotification)
        #expect(numbers(desk.takeSent()) == [4])
    }
}
