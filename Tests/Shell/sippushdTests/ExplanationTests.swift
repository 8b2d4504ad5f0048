import Addressing
import Bytes
import PushDelivery
import Registration
import TestSupport
import Testing
import Timekeeping

@testable import Control
@testable import sippushd

/// 2026-11-21 10:12:03.120 UTC.
private let start = UnixTime(milliseconds: 1_795_255_923_120)

private func report(isUser: Bool = true, isKnown: Bool = true, _ records: [TimelineRecord] = []) -> ExplainReport {
    var report = ExplainReport(
        name: isUser ? "bob@example.net" : "a84b4c76e66710@pbx", isUser: isUser, isKnown: isKnown,
        date: Seconds(start + .seconds(60)), keepsTimeline: true, maximumAge: 604_800)
    report.records = records.map { TimelineReport($0) }
    return report
}

private func record(
    _ omission: TimelineRecord.Omission? = nil, device: DeviceID = 71, app: String = "fcm",
    _ change: (inout TimelineRecord) -> Void = { _ in }
) -> TimelineRecord {
    var record = TimelineRecord(
        id: RecordID(rawValue: device.rawValue), kind: .call, user: ByteString("bob"), host: ByteString("example.net"),
        device: device, callRef: CallRef(rawValue: 9), callID: ByteString("a84b4c76e66710@pbx"), requestedAt: start,
        omission: omission, app: app)
    if omission == nil { record.delivery = .finished }
    change(&record)
    return record
}

private func lines(_ record: TimelineRecord) -> [String] {
    Explanation(report(isUser: false, isKnown: false, [record])).lines
}

@Suite("explain, in words")
struct ExplanationTests {
    @Test func `a store that takes no changes is told first, because records are missing`() {
        var report = report()
        #expect(!Explanation(report).lines.contains { $0.contains("503") })
        report.storeFailure = "the store cannot be written: the disk is full"
        let lines = Explanation(report).lines
        #expect(lines.first == "Now the store cannot be written: the disk is full")
        #expect(lines.dropFirst().first?.contains("=> Until then new phones and users get 503") == true)
        report.isKnown = false
        #expect(Explanation(report).lines.first == "Now the store cannot be written: the disk is full")
    }

    @Test func `that the PBX does not know the user is told first, also if no call ever came`() {
        var report = report()
        func line(_ state: String, _ reason: String?) -> String? {
            report.pbx = UpstreamUserReport(
                aor: "bob@example.net", state: state, since: 1_795_255_923, status: 403, remaining: 0, reason: reason,
                advice: "do it")
            return Explanation(report).lines.first
        }
        #expect(
            line("refused", "it refused the password (403)")
                == "not known at the PBX since 2026-11-21T10:12:03Z: it refused the password (403)")
        #expect(Explanation(report).lines.dropFirst().first == "  => do it")
        #expect(line("registered", nil)?.hasPrefix("bob@example.net has") == true)
        report.isUser = false
        #expect(line("refused", "x")?.contains("PBX") != true)
    }

    @Test func `a REGISTER whose token no app takes has the cure of the settings`() {
        func advice(_ reason: String) -> String? {
            lines(
                record {
                    $0.refused(.register, 555, share: .stranger)
                    $0.reason = reason
                }
            ).last
        }
        let topic = advice("\(TokenProblem.appleTopic.sentence)")
        #expect(topic?.contains("add the topic to push.apns.topics") == true)
        #expect(advice("the disk is full")?.contains("docs/Troubleshooting.md") == true)
    }

    @Test func `a provider whose name DNS does not know`() {
        func advice(_ reason: String) -> String? {
            lines(
                record {
                    $0.tries = 2
                    $0.answer = .failed
                    $0.reason = reason
                    $0.end = .pushFailed
                }
            ).last
        }
        let unknown = "api.push.apple.com:443: the host name cannot be resolved: DNS has no such name"
        #expect(advice(unknown)?.contains("DNS has no address of the provider") == true)
        #expect(advice("api.push.apple.com:443: no answer in time")?.contains("DNS") == false)
    }

    @Test func `the id of the call's trace`() {
        var report = report(isUser: false, isKnown: false, [record { $0.end = .answered }])
        report.records[0].traceID = "5b8efff798038103d269b633813fc60c"
        #expect(Explanation(report).lines.contains("  trace    5b8efff798038103d269b633813fc60c"))
        report.records[0].traceID = nil
        #expect(!Explanation(report).lines.contains { $0.contains("  trace") })
    }

    @Test func `the app's marks of the push`() {
        let record = record {
            $0.tries = 1
            $0.answer = .accepted
            $0.steps.sent = 1
            $0.steps.answered = 84
            $0.steps.ended = 30_000
            $0.end = .timeOver
            $0.marks.received = start + .milliseconds(900)
            $0.marks.followed = start + .seconds(40)
            $0.marks.read = start + .seconds(3000)
        }
        #expect(
            lines(record).dropFirst(2).dropLast() == [
                "  1 ms     sent to the provider", "  84 ms    the provider accepted the push",
                "  900 ms   the app reports that the push arrived",
                "  30000 ms no phone came in time, so the call was given up",
                "  40000 ms the app reports that the user opened the notification",
                "  3000000 ms the push counts as read from this moment on",
            ])
    }

    @Test func `a phone that was woken`() {
        let record = record(app: "fcm/second") {
            $0.tries = 1
            $0.answer = .accepted
            $0.providerID = ByteString("projects/x/messages/123")
            $0.steps.sent = 1
            $0.steps.answered = 84
            $0.steps.registered = 2310
            $0.steps.invited = 2311
            $0.steps.rang = 2400
            $0.steps.ended = 4100
            $0.end = .answered
        }
        #expect(
            lines(record) == [
                "Call a84b4c76e66710@pbx for bob@example.net, 2026-11-21 10:12:03.120 UTC",
                "  0 ms     the call came; push to device r2rp2 by fcm/second",
                "  1 ms     sent to the provider",
                "  84 ms    the provider accepted the push (projects/x/messages/123)",
                "  2310 ms  the phone registered",
                "  2311 ms  the daemon sent the INVITE to the phone",
                "  2400 ms  ringing began",
                "  4100 ms  answered",
            ])
    }

    @Test(arguments: TimelineRecord.SignOfLife.allCases)
    func `a phone that was awake`(sign: TimelineRecord.SignOfLife) {
        let record = record {
            $0.sign = sign
            $0.answer = .accepted
            $0.steps.invited = 310
            $0.steps.ended = 400
            $0.end = .callerGaveUp
        }
        let article = sign == .keepAlive ? "a keep-alive" : "a \(sign.rawValue)"
        #expect(
            lines(record).dropFirst(2).filter { !$0.contains("provider") } == [
                "  310 ms   the phone was awake: \(article) came on the flow that it registered on",
                "  310 ms   the daemon sent the INVITE to the phone", "  400 ms   the caller gave up",
            ])
    }

    @Test func `a user with contacts of every kind`() {
        var report = report()
        let hour: Int64 = 3_600_000
        func contact(
            _ device: UInt64, token: String? = nil, off: String? = nil, hasPush: Bool = false, isReported: Bool = false,
            expires: Int64 = 600_000
        ) -> ExplainReport.ContactReport {
            ExplainReport.ContactReport(
                device: device, deviceName: DeviceID(rawValue: device).name, token: token, switchedOff: off,
                hasPushParameters: hasPush, isReported: isReported,
                registeredAt: Seconds(milliseconds: report.date.milliseconds - 2 * hour),
                expiresAt: Seconds(milliseconds: report.date.milliseconds + expires))
        }
        report.contacts = [
            contact(71, token: "fcm:abcd…(152)", hasPush: true, expires: -hour), contact(72),
            contact(73, off: "apns", hasPush: true), contact(74, hasPush: true),
            contact(75, token: "acrobits:…(9)", hasPush: true, isReported: true),
        ]
        report.providers = [
            ProviderReport(name: "apns", isEnabled: false), ProviderReport(name: "fcm", isEnabled: true),
        ]
        report.missedCalls = 2
        #expect(
            Explanation(report).lines == [
                "bob@example.net has 5 devices",
                "  device r2rp2 (push token fcm:abcd…(152)): registered 2 h ago, expired 60 min ago, kept for pushes",
                "  device hz6hw (no push parameters): registered 2 h ago, expires in 10 min",
                "  device bvmdn (not pushed: provider apns is switched off): registered 2 h ago, expires in 10 min",
                "  device nr29f (the daemon does not use its push parameters; the log gives the reason when the phone registers): "
                    + "registered 2 h ago, expires in 10 min",
                "  device fmg59 (push token acrobits:…(9)): reported 2 h ago over HTTP, has not registered",
                "Provider apns is switched off: sippushd provider enable apns",
                "2 missed calls not reported yet: sippushd bucket show bob@example.net",
                "No call is on record (kept for 7 days)",
            ])
    }

    @Test func `a paused provider is said of the user, the device and the call, with the cure`() {
        var report = report([record { $0.delivery = .none }])
        report.contacts = [
            ExplainReport.ContactReport(
                device: 71, deviceName: DeviceID(rawValue: 71).name, token: "fcm:abcd…(152)", switchedOff: nil,
                paused: "fcm", hasPushParameters: true, isReported: false, registeredAt: report.date,
                expiresAt: Seconds(milliseconds: report.date.milliseconds + 600_000))
        ]
        report.providers = [ProviderReport(name: "fcm", isEnabled: true, isPaused: true)]
        let lines = Explanation(report).lines
        #expect(lines.contains { $0.hasPrefix("  device r2rp2 (not pushed: provider fcm is paused): registered") })
        #expect(lines.contains("Provider fcm is paused: sippushd provider resume fcm"))
    }

    @Test func `a contact that ended with its provider`() {
        var ended = TimelineRecord(
            id: RecordID(rawValue: 1), kind: .contact, user: ByteString("bob"), host: ByteString("example.net"),
            device: 71, callRef: nil, callID: .empty, calls: 0, requestedAt: start, omission: nil, app: "fcm")
        ended.delivery = .none
        ended.end = .providerOff
        ended.steps.ended = 0
        #expect(
            lines(ended) == [
                "Contact of bob@example.net, 2026-11-21 10:12:03.120 UTC",
                "  0 ms     the contact of device r2rp2 ended", "  0 ms     the provider was switched off",
                "  => The phone must register again to be called. Pushes wake it after sippushd provider enable fcm.",
            ])
    }

    @Test func `a user without a contact`() {
        var report = report()
        report.keepsTimeline = false
        #expect(
            Explanation(report).lines == [
                "bob@example.net has no device: the phone signed out, never registered, or its push token died",
                "No push provider is configured: see push.apns and push.fcm.",
                "No call is on record: the timeline is switched off (push.timeline.max-records is 0)",
            ])
    }

    @Test func `no user with that name, no such call`() {
        #expect(report(isKnown: false).isEmpty)
        #expect(
            Explanation(report(isKnown: false)).lines == [
                "no user is called bob@example.net, and no call for that name is on record (kept for 7 days)"
            ])
        #expect(
            Explanation(report(isUser: false, isKnown: false)).lines == [
                "no call a84b4c76e66710@pbx is on record (kept for 7 days)"
            ])
    }

    @Test func `a notification for two devices, one of which got none`() {
        let code = PushCode(high: 1, low: 2)
        func notification(_ device: DeviceID, _ omission: TimelineRecord.Omission? = nil) -> TimelineRecord {
            TimelineRecord(
                id: RecordID(rawValue: device.rawValue), kind: .notification, user: ByteString("bob"),
                host: ByteString("example.net"), device: device, callRef: nil, callID: .empty, calls: 0,
                requestedAt: start, omission: omission, code: code, app: omission == nil ? "apns" : "")
        }
        var sent = notification(71)
        sent.delivery = .finished
        sent.tries = 1
        sent.answer = .accepted
        sent.steps.sent = 1
        sent.steps.answered = 60
        #expect(
            Explanation(report([sent, notification(72, .deviceLimit)])).lines.suffix(6) == [
                "Notification \(code) for bob@example.net, 2026-11-21 10:12:03.120 UTC",
                "  0 ms     ordered by an application server; push to device r2rp2 by apns",
                "  0 ms     ordered by an application server; device hz6hw had too many pushes, so no push was sent",
                "  1 ms     device r2rp2: sent to the provider",
                "  60 ms    device r2rp2: the provider accepted the push",
                "  => The limits are api.notifications.per-device and call.pushes-per-device.",
            ])
    }

    @Test(arguments: Refusal.allCases)
    func `every refusal has a sentence, and nearly every one a cure`(refusal: Refusal) throws {
        let refused = record(device: 0) {
            $0.refused(refusal, 407, share: .stranger)
            $0.source = ByteString("192.0.2.7:5060")
            $0.peer = ByteString("sip:103@pbx.example.net")
            $0.reason = "because"
        }
        let lines = lines(refused)
        #expect(lines.first?.hasPrefix("Call a84b4c76e66710@pbx for bob@example.net from 192.0.2.7:5060, ") == true)
        #expect(try #require(lines.dropFirst().first).contains("407"))
        #expect(lines.contains { $0.hasPrefix("  => ") } == (refusal != .draining))
        #expect(!lines.contains { $0.contains("not finished yet") })
        if refusal == .notTrusted {
            #expect(
                lines.last
                    == "  => If 192.0.2.7 is your PBX, list it under trusted and send SIGHUP. A phone must be configured with its password."
            )
        }
    }

    @Test(arguments: TimelineRecord.End.allCases)
    func `a call that a phone made`(end: TimelineRecord.End) throws {
        var made = TimelineRecord(
            id: RecordID(rawValue: 1), kind: .outgoing, user: ByteString("bob"), host: ByteString("example.net"),
            device: .nobody, callRef: nil, callID: ByteString("c1"), requestedAt: start, omission: nil)
        made.delivery = .none
        made.source = ByteString("192.0.2.7:5060")
        made.peer = ByteString("sip:700@example.net")
        made.steps.invited = 2
        #expect(lines(made).last == "  2 ms     not finished yet")
        made.end = end
        made.endStatus = 486
        made.steps.ended = 900
        let told = lines(made)
        #expect(told.first?.hasPrefix("Call c1 of bob@example.net to sip:700@example.net, ") == true)
        #expect(told.dropFirst().first == "  0 ms     the call came from the phone at 192.0.2.7:5060")
        #expect(told.contains("  2 ms     the daemon sent the INVITE to the upstream"))
        #expect(told.contains { $0.hasPrefix("  900 ms   ") } == (end != .notOffered))
        #expect(told.contains { $0.hasPrefix("  => ") } == (end == .noAnswer || end == .unreachable))
        if end == .refused { #expect(told.last == "  900 ms   the upstream refused with 486") }
    }

    @Test(arguments: TimelineRecord.End.allCases)
    func `the forward for a user without a device has a sentence for each end`(end: TimelineRecord.End) {
        let lines = lines(
            record(.noContact) {
                $0.end = end
                $0.endStatus = 486
                $0.steps.ended = 900
            })
        guard end != .notOffered else { return }
        #expect(
            lines[1] == "  0 ms     the call came; bob@example.net had no device, so call.no-wake forwarded the call")
        #expect(lines.contains { $0.hasPrefix("  900 ms   ") })
        if end == .forwarded { #expect(lines.contains("  900 ms   the forward's destination rang or answered")) }
        if end == .refused {
            #expect(
                lines.contains {
                    $0.contains("destination refused with 486, so the caller got the status of call.no-wake")
                })
        }
        #expect(lines.contains { $0.hasPrefix("  => The phone must register: it never did") })
    }

    @Test(arguments: TimelineRecord.Omission.allCases)
    func `every reason for no push has a sentence`(omission: TimelineRecord.Omission) throws {
        let isRefused = [.unknownUser, .noContact, .tooManyCalls, .doNotDisturb].contains(omission)
        let lines = lines(
            record(omission, app: "fcm") {
                if omission == .delayed { $0.reason = "10 s" }
                if omission == .doNotDisturb { $0.reason = "until 07:00" }
                $0.end = isRefused ? .notOffered : .timeOver
                $0.endStatus = isRefused ? 480 : nil
                $0.steps.ended = isRefused ? 0 : 30_000
            })
        let expected =
            switch omission {
            case .unknownUser: "no user is called bob@example.net, so the caller got 480"
            case .noContact: "bob@example.net had no device, so the caller got 480"
            case .tooManyCalls: "too many calls were waiting, so the caller got 480"
            case .ordinaryContact: "device r2rp2 is an ordinary contact, so it gets the INVITE without a push"
            case .providerOff: "fcm is switched off, so device r2rp2 gets the INVITE without a push"
            case .providerPaused: "fcm is paused, so device r2rp2 got no push, and the call waits for the device"
            case .justRegistered: "device r2rp2 had just registered, so it gets the INVITE without a push"
            case .deviceLimit:
                "device r2rp2 had too many pushes, so no push was sent, and the call waits for the device"
            case .callerLimit: "the caller woke too many phones, so device r2rp2 got no push, and the call waits"
            case .notCarried: "the token of device r2rp2 cannot carry this kind of push"
            case .delayed: "device r2rp2 waits 10 s"
            case .doNotDisturb:
                "do not disturb is set for bob@example.net (until 07:00), so device r2rp2 does not ring, "
                    + "and the caller got 480"
            }
        #expect(try #require(lines.dropFirst().first) == "  0 ms     the call came; \(expected)")
        let hasAdvice = omission != .ordinaryContact && omission != .justRegistered
        #expect(lines.contains { $0.hasPrefix("  => ") } == hasAdvice)
    }

    @Test(arguments: [
        (TimelineRecord.Answer.accepted, 200 as Int?, "the provider accepted the push"),
        (.acceptedWithNewToken, 200, "the provider accepted the push, and named a new token for the phone"),
        (.tokenDead, 410, "the provider says the token is dead since 2026-11-21 10:12:03.120 UTC"),
        (.failed, 503, "the provider had trouble: why"), (.failed, nil, "the provider was not reached: why"),
        (.credentialsRefused, 403, "the provider does not accept our credentials: why"),
        (.foreignToken, 400, "the provider says that the token belongs to another app: why"),
        (.noConnection, nil, "the daemon cannot connect to the provider: why"),
        (.payloadRefused, 400, "the provider does not accept the message: why"),
        (.noSuitableToken, nil, "the phone gave no token for this kind of push"),
        (.queueFull, nil, "not sent: too many pushes wait"),
        (.noApp, nil, "not sent: the token belongs to no app in the settings"),
        (.paused, nil, "not sent: the provider is paused"),
    ])
    func `every answer has a sentence`(answer: TimelineRecord.Answer, status: Int?, sentence: String) {
        let lines = lines(
            record {
                $0.tries = 1
                $0.answer = answer
                $0.status = status
                $0.reason = answer == .accepted || answer == .acceptedWithNewToken ? "" : "why"
                $0.deadSince = start
                $0.steps.answered = 84
                $0.end = .pushFailed
                $0.steps.ended = 85
            })
        #expect(lines.contains("  84 ms    \(sentence)"))
        let isAccepted = answer == .accepted || answer == .acceptedWithNewToken
        #expect(lines.contains { $0.hasPrefix("  => ") } != isAccepted)
    }

    @Test(arguments: [
        ("apns", "push.apns.key-id, team-id and key-file"), ("apns.dev", "push.apns.key-id"),
        ("fcm/second", "push.fcm.apps.second.service-account-file"), ("webpush", "push.webpush.vapid-key-file"),
        ("http/shop", "push.http.apps.shop:"),
    ])
    func `credentials that are refused point to their settings`(app: String, key: String) throws {
        let lines = lines(
            record(app: app) {
                $0.answer = .credentialsRefused
                $0.reason = "InvalidProviderToken"
                $0.end = .pushFailed
            })
        #expect(try #require(lines.last).hasPrefix("  => Check \(key)"))
    }

    @Test func `attempts are listed`() {
        let twice = lines(
            record {
                $0.tries = 3
                $0.answer = .accepted
                $0.status = 200
                $0.reason = "503"
                $0.steps.answered = 900
                $0.end = .answered
                $0.steps.ended = 901
            })
        #expect(twice.contains("  900 ms   the provider accepted the push at try 3; the try before failed: 503"))
    }

    @Test(arguments: TimelineRecord.End.allCases)
    func `every end has a sentence`(end: TimelineRecord.End) {
        let lines = lines(
            record {
                $0.end = end
                $0.endStatus = 486
                $0.steps.ended = 500
            })
        #expect(lines.contains { $0.hasPrefix("  500 ms") } == (end != .notOffered))
    }

    @Test func `the explanation of a phone that does not come names the next steps`() throws {
        func advice(_ change: (inout TimelineRecord) -> Void) throws -> String {
            let lines = lines(
                record {
                    $0.end = .timeOver
                    $0.steps.ended = 30_000
                    change(&$0)
                })
            return try #require(lines.last)
        }
        #expect(
            try advice { $0.answer = .accepted }.hasPrefix(
                "  => The phone did not register within 30 s although the provider accepted the push"))
        #expect(try advice { $0.delivery = .withdrawn }.contains("waited in the queue"))
        #expect(
            try advice {
                $0.delivery = .withdrawn
                $0.steps.sent = 1
            }.contains("did not answer within 30 s"))
        #expect(
            try advice {
                $0.answer = .accepted
                $0.steps.registered = 5
            }.contains("the store did not persist the registration"))
    }

    @Test func `missed calls that a token cannot carry`() {
        let record = TimelineRecord(
            id: RecordID(rawValue: 3), kind: .missedCalls, user: ByteString("bob"), host: ByteString("example.net"),
            device: 71, callRef: CallRef(rawValue: 9), callID: .empty, calls: 2, requestedAt: start,
            omission: .notCarried, app: "apns")
        let lines = lines(record)
        #expect(
            lines.contains {
                $0.contains("2 missed calls to report; the token of device r2rp2 cannot carry a list of missed calls")
            })
        #expect(lines.last?.contains("The app must register with a token for other pushes as well") == true)
    }

    @Test func `a phone that comes too late`() throws {
        let record = record {
            $0.answer = .accepted
            $0.end = .timeOver
            $0.steps.ended = 30_000
        }
        var report = report([record])
        report.contacts = [
            ExplainReport.ContactReport(
                device: 71, deviceName: DeviceID(rawValue: 71).name, token: "fcm:…(9)", hasPushParameters: true,
                isReported: false,
                registeredAt: Seconds(start + .milliseconds(31_500)), expiresAt: Seconds(start + .seconds(3600)))
        ]
        #expect(try #require(Explanation(report).lines.last).hasPrefix("  => The phone registered 1500 ms too late"))
    }

    @Test func `two phones of one call are explained together`() {
        let first = record {
            $0.answer = .accepted
            $0.steps.answered = 80
            $0.end = .answeredElsewhere
            $0.steps.ended = 3000
        }
        let second = record(device: 72, app: "apns") {
            $0.answer = .accepted
            $0.steps.answered = 40
            $0.end = .answered
            $0.steps.ended = 3000
        }
        #expect(
            Explanation(report(isUser: false, [first, second])).lines == [
                "Call a84b4c76e66710@pbx for bob@example.net, 2026-11-21 10:12:03.120 UTC",
                "  0 ms     the call came; push to device r2rp2 by fcm",
                "  0 ms     the call came; push to device hz6hw by apns",
                "  40 ms    device hz6hw: the provider accepted the push",
                "  80 ms    device r2rp2: the provider accepted the push",
                "  3000 ms  device r2rp2: answered by another phone",
                "  3000 ms  device hz6hw: answered",
            ])
    }

    @Test func `open calls and missed calls`() {
        var missed = TimelineRecord(
            id: RecordID(rawValue: 3), kind: .missedCalls, user: ByteString("bob"), host: ByteString("example.net"),
            device: 71, callRef: CallRef(rawValue: 1), callID: .empty, calls: 3, requestedAt: start, omission: nil,
            app: "fcm")
        missed.steps.sent = 2
        #expect(
            lines(missed) == [
                "Missed calls for bob@example.net, 2026-11-21 10:12:03.120 UTC",
                "  0 ms     3 missed calls to report; push to device r2rp2 by fcm", "  2 ms     sent to the provider",
                "  2 ms     not finished yet",
            ])
    }

    @Test func `words name the record of each step, and sum up the newest call`() {
        let woken = record { record in
            record.answer = .accepted
            record.steps.sent = 10
            record.steps.answered = 50
            record.steps.ended = 30_000
            record.end = .timeOver
        }
        let words = Explanation(report([record(.providerOff, device: 70), woken])).words
        #expect(words.lines.filter { $0.record == 1 }.map(\.text).contains { $0.contains("sent to the provider") })
        #expect(words.verdict == "No phone came in time, so the call was given up.")
        let advice = words.lines.filter { $0.record == 1 }.last?.advice
        #expect(advice?.hasPrefix("The phone did not register within 30 s") == true)
        #expect(words.advice == words.lines.first { $0.record != nil && !$0.advice.isEmpty }?.advice)
        let printed = Explanation(report([woken])).lines
        for line in words.lines where !line.advice.isEmpty && line.record == 1 {
            #expect(printed.contains("  => \(line.advice)"))
        }
    }
}
