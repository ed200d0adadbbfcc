"""Reports made readable: messages, status and events, wire JSON, trees and tables. Core words become API words here."""
