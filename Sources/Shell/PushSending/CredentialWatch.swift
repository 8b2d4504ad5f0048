package import PushDelivery
package import Reactor
package import Telemetry
package import Timekeeping

/// The state of an app's credentials at the provider.
package struct CredentialStanding: Hashable, Sendable {
    package let verdict: TrialVerdict
    /// The time of the first trial with the present verdict.
    package let since: UnixTime
    /// The time of the last trial of the credentials.
    package let triedAt: UnixTime
}

/// Tries the credentials of all apps in the background: at the start, at each reload, and again after a failure of the
/// provider. No part of the daemon waits for the trials of credentials.
///
/// - The class is `@unchecked Sendable`, because only the loop uses it.
package final class CredentialWatch: @unchecked Sendable {
    /// The state of each app's credentials, by the app's name. An app whose credentials were not tried yet has no
    /// entry.
    package private(set) var standings: [String: CredentialStanding] = [:]
    private let push: PushService
    private let loop: EventLoop
    private let log: Log
    private var timer: LoopTimer?
    /// The push apps whose credentials the daemon tries next.
    private var waiting: [PushApp] = []
    /// The number of the present round of trials; results of earlier rounds are dropped.
    private var round = 0
    private var pause = CredentialWatch.firstPause
    /// Chooses a random length of a pause, in seconds.
    private let random: (ClosedRange<Double>) -> Double

    /// The range of the pause before a round of trials, in seconds. The pause before a round of trials is random, so
    /// that daemons that start together do not ask a provider at the same moment.
    private static let startPause = 1.0...5.0
    private static let firstPause: Duration = .seconds(60)
    private static let longestPause: Duration = .seconds(3600)
    private static let tolerance: Int64 = 60

    package init(
        _ push: PushService, on loop: EventLoop, log: Log,
        random: @escaping (ClosedRange<Double>) -> Double = { .random(in: $0) }
    ) throws(SystemError) {
        self.push = push
        self.loop = loop
        self.log = log
        self.random = random
        timer = try LoopTimer(on: loop) { [weak self] in self?.tryNext() }
    }

    /// Begins a round of trials of all apps' credentials a few seconds from now; if `isOn` is false, all trials stop.
    package func start(isOn: Bool) {
        round += 1
        pause = Self.firstPause
        waiting = isOn ? push.setup.directory.apps : []
        guard isOn else {
            standings = [:]
            timer?.disarm()
            return
        }
        timer?.arm(at: loop.now + .seconds(random(Self.startPause)))
    }

    private func tryNext() {
        guard let app = waiting.first else { return tryFailedLater() }
        waiting.removeFirst()
        let round = round
        push.tryCredentials(of: app) { [weak self] result in
            guard let self, self.round == round else { return }
            note(result, of: app)
            tryNext()
        }
    }

    /// Schedules new trials of the providers that could not be reached. Refused credentials are tried again only after
    /// a reload of the settings.
    private func tryFailedLater() {
        waiting = push.setup.directory.apps.filter { app in
            if case .failed = standings[app.name]?.verdict { true } else { false }
        }
        guard !waiting.isEmpty else { return }
        let seconds = Double(pause.components.seconds)
        timer?.arm(at: loop.now + .seconds(random(0.75 * seconds...1.25 * seconds)))
        pause = min(pause * 2, Self.longestPause)
    }

    private func note(_ result: TrialResult, of app: PushApp) {
        let now = loop.moment.date
        let old = standings[app.name]
        let verdict = result.verdict
        let isSame = old?.verdict == verdict
        standings[app.name] = CredentialStanding(
            verdict: verdict, since: isSame ? old?.since ?? now : now, triedAt: now)
        guard !isSame else { return }
        let name = LogValue.text(app.name)
        switch verdict {
        case .works:
            log.info("the push provider accepts the daemon's credentials", [.provider: name])
        case .reached(let words):
            log.info(
                "the push provider answers, but its answer does not show whether it accepts the daemon's credentials",
                [.provider: name, .reason: .text(words)])
        case .refused(let reason, let cure):
            log.error(
                "a trial of an app's credentials failed: the provider does not accept our credentials",
                [.provider: name, .reason: .text(reason), .advice: .text(Self.cure(cure, result.clockLead))])
        case .failed(let reason, let cure):
            log.warning(
                "a trial of an app's credentials failed: the provider was not reached",
                [.provider: name, .reason: .text(reason), .advice: .text(cure)])
        }
    }

    /// Returns the advice for the operator after a failed trial of credentials. A wrong clock is reported first,
    /// because signed tokens contain the clock's time.
    private static func cure(_ cure: String, _ lead: Int64?) -> String {
        guard let lead, lead.magnitude >= tolerance else { return cure }
        return
            "This machine's clock is \(lead.magnitude) s \(lead > 0 ? "ahead of" : "behind") the provider's: timedatectl. \(cure)"
    }
}
