import Foundation
import ScenarioReplay

do throws(ReplayError) {
    let options = try ReplayOptions(Array(CommandLine.arguments.dropFirst()))
    let replay = Replay(options, program: CommandLine.arguments.first ?? "")
    exit(try replay.run() ? 0 : 1)
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(2)
}
