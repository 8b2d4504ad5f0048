import SIPGrammar

/// What is kept of dialogs beside the tokens that their own requests bring.
package struct Dialogs {
    /// Marks this run of the program in dialog tokens: numbers of connections mean nothing in any other.
    let run: UInt32
    /// Dialogs that were renewed.
    package internal(set) var lives = DialogLives()
    var provedPlaces = ProvedPlaces()
    var devices = DialogDevices()

    init(run: UInt32) { self.run = run }
}
